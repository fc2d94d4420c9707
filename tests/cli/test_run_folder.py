import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from s2r_jax.cli.report import Report
from s2r_jax.cli.run_folder import RunFolder, plain
from s2r_jax.errors import BadValue, RunExists


@dataclass(frozen=True)
class Settings:
    rate: float = 0.5


class Pair(NamedTuple):
    a: float
    b: np.ndarray


def test_folder_appears_whole_at_the_end(tmp_path):
    out = tmp_path / "deep" / "run"
    with RunFolder(out, Settings()) as run:
        run.metric(step=1, cost=np.float32(2.5))
        run.metric(step=2, cost=float("nan"))
        assert not out.exists()
    assert json.loads((out / "config.json").read_text()) == {"rate": 0.5}
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"step": 1, "cost": 2.5}, {"step": 2, "cost": None}]
    assert "jax" in json.loads((out / "versions.json").read_text())


def test_nothing_stays_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), RunFolder(tmp_path / "run", Settings()):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keeps", [True, False])
def test_interrupted_run_stays_only_where_it_can_be_resumed(tmp_path, keeps):
    with pytest.raises(KeyboardInterrupt), RunFolder(tmp_path / "run", Settings(), keeps):
        raise KeyboardInterrupt
    assert (tmp_path / "run.partial").exists() is keeps
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("error", [RuntimeError, BadValue])
def test_a_run_to_go_on_with_outlives_every_error(tmp_path, error):
    arguments = ("a", "b", "c", "d") if error is BadValue else ()
    partial = tmp_path / "run.partial"
    partial.mkdir()
    (partial / "state").write_text("hours")
    with pytest.raises(error), RunFolder(tmp_path / "run", Settings(), True):
        raise error(*arguments)
    assert (partial / "state").read_text() == "hours"


def test_bad_input_leaves_nothing_to_go_on_with(tmp_path):
    with pytest.raises(BadValue), RunFolder(tmp_path / "run", Settings(), True):
        raise BadValue("a", "b", "c", "d")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keeps", [True, False])
def test_two_commands_do_not_write_one_folder(tmp_path, keeps):
    with RunFolder(tmp_path / "run", Settings(), keeps) as run:
        (run.path / "state").write_text("hours")
        with (
            pytest.raises(BadValue, match="a folder that no other running command writes"),
            RunFolder(tmp_path / "run", Settings(), keeps),
        ):
            pass
    assert (tmp_path / "run" / "state").read_text() == "hours"


def test_what_a_killed_run_left_is_cleared(tmp_path):
    (tmp_path / "run.partial" / "deep").mkdir(parents=True)
    (tmp_path / "run.partial" / "old").write_text("old")
    with RunFolder(tmp_path / "run", Settings()):
        pass
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["config.json", "versions.json"]


def test_existing_run_is_refused_and_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    with pytest.raises(RunExists), RunFolder(tmp_path / "full", Settings()):
        pass
    (tmp_path / "empty").mkdir()
    with RunFolder(tmp_path / "empty", Settings()):
        pass
    assert (tmp_path / "empty" / "config.json").exists()


def test_plain_gives_json_types():
    value = {"p": Pair(float("inf"), np.arange(2)), "s": Settings(), 3: (np.bool_(True),)}
    assert plain(value) == {"p": {"a": None, "b": [0, 1]}, "s": {"rate": 0.5}, "3": [True]}


def test_report_escapes_what_it_is_given(tmp_path):
    report = Report("<b>")
    report.table(("a",), [["<script>alert(1)</script>"]])
    report.write(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
