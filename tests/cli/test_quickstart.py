"""The whole loop once, with as little work as each stage can do."""

import json

import pytest

from s2r_jax import cli


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_quickstart_closes_the_loop(tmp_path, capsys):
    out = tmp_path / "run"
    small = ["--training.updates", "2", "--training.worlds", "8", "--training.episodes", "8"]
    cli.main(["quickstart", "--out", str(out), "--logs", "2", "--seconds", "3", "--episodes", "2",
              *small, "--json"])  # fmt: skip
    result = json.loads(capsys.readouterr().out)
    assert result == json.loads((out / "quickstart.json").read_text())
    for rate in result["success"].values():
        assert rate["n"] == 2
        assert 0 <= rate["low"] <= rate["value"] <= rate["high"] <= 1
    for name in ("logs/log0.npz", "identify/identified.json", "identify/identified.xml",
                 "identify/posterior.npz", "randomize/randomization.yaml", "train_nominal.s2r",
                 "train_identified.s2r", "validate/validation.json", "report.html"):  # fmt: skip
        assert (out / name).stat().st_size > 0
    # Three seconds of log say something, not everything: what is called identifiable must be right.
    for entry in json.loads((out / "identify" / "identified.json").read_text())["parameters"]:
        truth = json.loads((out / "hidden.json").read_text())["theta"][entry["name"]]
        if entry["identifiable"]:
            assert abs(entry["value"] - truth) < 5 * entry["std"]
