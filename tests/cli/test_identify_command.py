"""`s2r identify` as a person sees it: verdict, report and files."""

import json

import numpy as np
import pytest

from s2r_jax.cli import main

XML = """
<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
<body name="block"><joint name="x" type="slide" axis="1 0 0" stiffness="12" damping="0.5"/>
<geom size=".1" mass="2"/></body></worldbody></mujoco>"""
YAML = """
name: spring
model: spring.xml
control: {period: 0.01}
signals: {joint/x/position: {}}
parameters:
  - {target: joint/x/stiffness, bounds: [1, 100], start: 15, prior_std: 20, unit: N/m}
logs: {time: {column: t, unit: s}, columns: {joint/x/position: x}}
"""


@pytest.fixture
def spring(tmp_path):
    (tmp_path / "spring.xml").write_text(XML)
    (tmp_path / "robot.yaml").write_text(YAML)
    t = np.arange(801) * 0.01
    omega = np.sqrt(10 - 0.125**2)
    x = 0.3 * np.exp(-0.125 * t) * (np.cos(omega * t) + 0.125 / omega * np.sin(omega * t))
    x = x + 1e-4 * np.random.default_rng(0).standard_normal(t.size)
    np.savez(tmp_path / "log.npz", t=t, x=x)
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
