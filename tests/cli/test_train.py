"""An interrupted training goes on where it stopped."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from s2r_jax import cli
from s2r_jax.cli.run_folder import RunFolder
from s2r_jax.cli.train import Command

SERVO = Path(__file__).parents[2] / "examples" / "servo_pendulum"
SMALL = ["--worlds", "8", "--unroll", "20", "--minibatches", "2", "--episodes", "4"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_interrupted_training_is_resumed(tmp_path, capsys):
    out = tmp_path / "run"
    arguments = ["train", str(SERVO), "--task", "swing_up", "--out", str(out), *SMALL]
    code = f"from s2r_jax import cli; cli.main({[*arguments, '--updates', '10000']!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    state = tmp_path / "run.partial" / "state.safetensors"
    deadline = time.monotonic() + 200
    while not state.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err.decode()
    assert state.exists()
    assert not out.exists()
    done = len((tmp_path / "run.partial" / "metrics.jsonl").read_text().splitlines())

    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments, "--updates", str(done + 5)])
    assert stop.value.code == 2
    assert "add --resume or remove it" in " ".join(capsys.readouterr().err.split())

    cli.main([*arguments, "--updates", str(done + 5), "--resume"])
    updates = [json.loads(x)["update"] for x in (out / "metrics.jsonl").read_text().splitlines()]
    assert updates[-1] == done + 5
    # What was done after the last checkpoint is done again; nothing is left out.
    assert set(updates) == set(range(1, done + 6))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--task", "hang"], "task is 'hang', expected 'swing_up', as in the run to go on with"),
        (["--seed", "3"], "seed is 3, expected 0, as in"),
        (["--randomization", "r.yaml"], "randomization is 'r.yaml', expected None, as in"),
    ],
)
def test_resuming_another_run_is_refused_and_loses_nothing(tmp_path, capsys, change, message):
    out = tmp_path / "run"
    begun = RunFolder(out, Command(SERVO, "swing_up", out=out), keeps_partial=True)
    with contextlib.suppress(KeyboardInterrupt), begun as run:
        (run.path / "state.safetensors").write_text("hours")
        raise KeyboardInterrupt
    arguments = ["train", str(SERVO), "--task", "swing_up", "--out", str(out), "--resume", *change]
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "run.partial" / "state.safetensors").read_text() == "hours"
