"""Zeros that each log has of its own, on a spring whose motion is known in closed form."""

import dataclasses
import json

import numpy as np
import pytest

from s2r_jax import cli
from s2r_jax.errors import BadValue
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.fit import fit
from s2r_jax.identify.segments import cut
from s2r_jax.identify.study import study
from tests.identify import springs

BIAS = "target: sensor/joint/x/position/bias, bounds: [-0.2, 0.2]"
OWN = BIAS + ", per_log: true"
ZEROS = np.array([0.03, -0.02, 0.05])
NOISE = 1e-4
CONFIG = IdentifyConfig(method="fd", window=0.5, profile=0)


def log(zero, seed=0):
    """A swing that an encoder with this zero has read; the state is estimated from its readings."""
    swing = springs.swing(noise=NOISE, seed=seed, rows=401, has_states=True)
    return swing._replace(
        name=f"zero {zero:g}", measured=swing.measured + zero, qpos=swing.qpos + zero
    )


def logs():
    return [log(zero, seed) for seed, zero in enumerate(ZEROS)]


@pytest.mark.parametrize("method", ["lm", "fd"])
def test_bias_of_a_sensor_moves_where_windows_start(spring, method):
    r = spring(springs.STIFFNESS, springs.DAMPING, BIAS)
    config = dataclasses.replace(CONFIG, method=method)
    found = fit(r, cut([log(0.03)], 50, held=1), config).posterior
    assert found.value == pytest.approx([20, 0.5, 0.03], rel=1e-2)
    assert np.abs(found.value - [20, 0.5, 0.03]).max() < 4 * found.std.max()


@pytest.mark.parametrize("method", ["lm", "fd"])
def test_each_log_gets_its_own_zero_and_theta_their_distribution(spring, method):
    r = spring(springs.STIFFNESS, OWN, springs.DAMPING)
    config = dataclasses.replace(CONFIG, method=method)
    found = fit(r, cut(logs(), 50, held=1), config)
    assert found.own.names == ("sensor/joint/x/position/bias",)
    assert found.own.value[:, 0] == pytest.approx(ZEROS, abs=1e-4)
    assert (np.abs(found.own.value[:, 0] - ZEROS) < 4 * found.own.std[:, 0]).all()
    assert found.posterior.names == r.parameters.names
    assert found.posterior.value[[0, 2]] == pytest.approx([20, 0.5], rel=1e-2)
    assert found.posterior.value[1] == pytest.approx(ZEROS.mean(), abs=1e-4)
    assert found.posterior.std[1] == pytest.approx(ZEROS.std(ddof=1), rel=1e-2)
    assert found.posterior.identifiable.all()


def test_standard_errors_are_those_of_logs_fitted_with_the_zeros_as_separate_unknowns(spring):
    # One log has nothing to share: its own zero is an unknown like any other.
    windows = cut([log(0.03)], 50, held=1)
    own = fit(spring(springs.STIFFNESS, springs.DAMPING, OWN), windows, CONFIG)
    plain = fit(spring(springs.STIFFNESS, springs.DAMPING, BIAS), windows, CONFIG).posterior
    assert own.posterior.value == pytest.approx(plain.value, rel=1e-9)
    assert own.posterior.std == pytest.approx(plain.std, rel=1e-6)
    assert own.own.std[0, 0] == pytest.approx(plain.std[2], rel=1e-6)


def test_log_that_was_held_out_is_scored_with_the_zero_of_its_other_half(spring):
    r = spring(springs.STIFFNESS, springs.DAMPING, OWN)
    found = study(r, logs(), CONFIG, [log(-0.04, seed=9)])
    score = found.holdout.scores.signals["joint/x/position"]
    assert score.rmse == pytest.approx(NOISE, rel=0.3)
    r = spring(springs.STIFFNESS, springs.DAMPING)
    without = study(r, logs(), CONFIG, [log(-0.04, seed=9)])
    assert without.holdout.scores.signals["joint/x/position"].rmse > 20 * NOISE


def test_log_of_one_window_is_said_to_be_too_short(spring):
    r = spring(springs.STIFFNESS, springs.DAMPING, OWN)
    short = log(-0.04, seed=9)
    short = short._replace(
        name="short", command=short.command._replace(**{
            key: leaf[:40] for key, leaf in short.command._asdict().items()
        }), measured=short.measured[:40], qpos=short.qpos[:40], qvel=short.qvel[:40]
    )  # fmt: skip
    found = study(r, logs(), CONFIG, [short])
    assert any(w.startswith("short is one window, too short for its own") for w in found.warnings)


def test_searches_over_populations_refuse_what_is_per_log(spring):
    r = spring(springs.STIFFNESS, OWN)
    with pytest.raises(BadValue, match="per_log is 'cmaes', expected lm or fd"):
        fit(r, cut(logs(), 50, held=1), dataclasses.replace(CONFIG, method="cmaes"))


def test_command_shows_each_logs_own(tmp_path, capsys):
    columns = "logs: {time: {column: t, unit: s}, columns: {joint/x/position: x}}\n"
    springs.folder(tmp_path, springs.STIFFNESS, springs.DAMPING, OWN, rest=columns)
    paths = []
    for name, each in zip("abc", logs(), strict=True):
        paths.append(str(tmp_path / f"{name}.npz"))
        np.savez(paths[-1], t=np.arange(401) * springs.PERIOD, x=each.measured[:, 0])
    out = tmp_path / "run"
    arguments = ["--method", "fd", "--window", "0.5", "--holdout", "0", "--profile", "0"]
    cli.main(["identify", str(tmp_path), *paths, *arguments, "--out", str(out)])
    own = json.loads((out / "identified.json").read_text())["per_log"]
    values = [entry["value"] for entry in own["sensor/joint/x/position/bias"].values()]
    assert values == pytest.approx(ZEROS, abs=2e-3)  # starts are smoothed readings
    assert "each log's own" in capsys.readouterr().err
    assert "What each log has of its own" in (out / "report.html").read_text()
    with pytest.raises(SystemExit):
        cli.main(["identify", str(tmp_path), *paths, "--compare", "--out", str(tmp_path / "b")])
    assert "together with --compare" in capsys.readouterr().err
