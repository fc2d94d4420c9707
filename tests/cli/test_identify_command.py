"""`s2r identify` as a person sees it: verdict, report and files."""

import json

import numpy as np
import pytest

from s2r_jax.cli import main
from tests.identify import springs

STIFFNESS = "target: joint/x/stiffness, bounds: [1, 100], start: 15, prior_std: 20, unit: N/m"
LOGS = "logs: {time: {column: t, unit: s}, columns: {joint/x/position: x}}\n"


@pytest.fixture
def spring(tmp_path):
    springs.folder(tmp_path, STIFFNESS, stiffness=12.0, option='timestep="0.01"', rest=LOGS)
    x = springs.swing(noise=1e-4, rows=801).measured[:, 0]
    np.savez(tmp_path / "log.npz", t=np.arange(801) * springs.PERIOD, x=x)
    return tmp_path


def test_verdict_is_said_last_and_stands_in_file_and_report(spring, capsys):
    out = spring / "run"
    main(["identify", str(spring), str(spring / "log.npz"), "--method", "fd",
                   "--out", str(out)])  # fmt: skip
    result = json.loads((out / "identified.json").read_text())
    last = capsys.readouterr().err.strip().splitlines()[-1]
    # A hold-out of two seconds is too short to say anything.
    assert result["verdict"] == "NO-GO"
    assert any("hold out more" in reason for reason in result["reasons"])
    assert last.startswith("NO-GO; written to")
    page = (out / "report.html").read_text()
    assert '<p class="nogo">NO-GO</p>' in page
    assert all(reason in page for reason in result["reasons"])
    assert "15 ± 20" in page  # the prior


def test_window_that_does_not_fit_is_a_warning_in_the_file(spring):
    out = spring / "run"
    main(["identify", str(spring), str(spring / "log.npz"), "--method", "fd", "--window", "50",
          "--out", str(out)])  # fmt: skip
    warnings = json.loads((out / "identified.json").read_text())["warnings"]
    assert any(word.startswith("windows of 50 s do not fit into 2 of 2 logs") for word in warnings)
