import json
import signal
import subprocess
import sys

import pytest

from s2r_jax.errors import BadValue
from s2r_jax.hardware.emulator import draw
from s2r_jax.hardware.spawn import spawn
from s2r_jax.hardware.udp import UdpDriver
from tests.hardware import bench


def test_process_answers_hides_its_theta_and_ends_on_request(robot, tmp_path):
    reveal = tmp_path / "theta.json"
    with spawn(robot.folder, seed=9, is_lockstep=True, reveal=reveal) as (address, process):
        signals = [(signal.name, signal.size) for signal in robot.signals]
        driver = UdpDriver(address, [joint.name for joint in robot.joints], signals)
        driver.open()
        assert driver.read(10.0) is not None
        driver.damp()
        assert driver.read(10.0) is not None
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert driver.read(0.1) is None
        driver.close()
    hidden = draw(robot.parameters, 9, 0.8)
    assert json.loads(reveal.read_text())["theta"] == robot.parameters.named(hidden)


def test_spawn_says_why_a_robot_does_not_start(tmp_path):
    bench.load(tmp_path)
    (tmp_path / "robot.yaml").write_text(bench.ROBOT.replace("kind: pd", "kind: pdd"))
    with pytest.raises(BadValue, match=r"a robot that starts: .*unknown kind 'pdd'"):  # noqa: SIM117
        with spawn(tmp_path):
            pass


def test_robot_side_imports_neither_jax_nor_mujoco():
    code = (
        "import sys; import s2r_jax.hardware.udp, s2r_jax.deploy.loop, s2r_jax.deploy.record, "
        "s2r_jax.deploy.bundle, s2r_jax.deploy.policy; "
        "print(*sorted(m for m in ('jax', 'flax', 'mujoco', 'onnx') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
