"""Robot folders with any column map."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from s2r_jax import robot
from tests.logs.robots import CUBE, PAIR, SERVO, Maker

PERIODS = {SERVO: 0.005, PAIR: 0.002, CUBE: 1 / 148}


@pytest.fixture
def make_robot(tmp_path: Path) -> Maker:
    """Write a robot folder and load it: `make_robot(SERVO, columns={...}, time="t")`."""

    def make(
        mjcf: str,
        columns: dict[str, Any] | None = None,
        period: float | None = None,
        kind: str = "torque",
        logs: dict[str, Any] | None = None,
        **document: Any,
    ) -> robot.Robot:
        folder = tmp_path / f"robot{len(list(tmp_path.glob('robot*')))}"
        folder.mkdir()
        (folder / "model.xml").write_text(mjcf)
        motors = {"kind": kind, "kp": 10.0} if kind == "pd" else {"kind": kind}
        entry: dict[str, Any] = {"name": "inline", "model": "model.xml"}
        entry["control"] = {"period": period or PERIODS.get(mjcf, 0.002)}
        if "<actuator>" in mjcf:
            entry["motors"] = motors
        if columns is not None:
            entry["logs"] = {"time": {"column": "time"}, **(logs or {}), "columns": columns}
        (folder / "robot.yaml").write_text(yaml.safe_dump(entry | document, sort_keys=False))
        return robot.load(folder)

    return make
