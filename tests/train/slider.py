"""A block on a frictionless rail, pushed by a force: all of it is known in closed form."""

from pathlib import Path

import yaml

from s2r_jax import robot
from s2r_jax.sim import world
from s2r_jax.train import environment

MODEL = """
<mujoco model="slider">
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <body name="block">
      <joint name="rail" type="slide" axis="1 0 0"/>
      <geom type="box" size="0.1 0.1 0.1" mass="2"/>
    </body>
  </worldbody>
  <actuator><motor name="push" joint="rail"/></actuator>
  <keyframe><key name="shifted" qpos="0.3" qvel="-0.1"/></keyframe>
</mujoco>
"""
PERIOD, MASS, FORCE = 0.02, 2.0, 8.0
POSITION, VELOCITY = "joint/rail/position", "joint/rail/velocity"
TASK = {
    "seconds": 0.2,
    "observation": [
        {"signal": POSITION},
        {"signal": VELOCITY, "scale": 0.5},
        {"action": "previous"},
    ],
    "reset": {POSITION: {"spread": 0.1}},
    "reward": [
        {"term": "square", "signal": POSITION, "target": 0.2, "weight": -3.0},
        {"term": "action_rate", "weight": -0.5},
    ],
    "success": {"signal": POSITION, "target": 0.0, "tolerance": 0.15, "last": 0.06},
}


def write(folder: Path, **changes) -> Path:
    """Write the robot folder; `changes` replace keys of its task `slide`, None removes them.

    `signals` and `latency` are the robot's instead.
    """
    own = {key: changes.pop(key) for key in ("signals", "latency") if key in changes}
    task = {key: value for key, value in (TASK | changes).items() if value is not None}
    document = own | {
        "name": "slider",
        "model": "slider.xml",
        "control": {"period": PERIOD},
        "joints": {"rail": {"low": -6.0, "high": 6.0, "action_scale": FORCE}},
        "parameters": [
            {"target": "body/block/mass", "bounds": [1.0, 4.0], "unit": "kg"},
            {"target": "sensor/joint/rail/position/bias", "bounds": [-0.1, 0.3], "unit": "m"},
        ],
        "tasks": {"slide": task},
    }
    folder.mkdir(exist_ok=True)
    (folder / "slider.xml").write_text(MODEL)
    (folder / "robot.yaml").write_text(yaml.safe_dump(document))
    return folder


def make(folder: Path, engine: str = "mujoco", **changes) -> environment.Environment:
    """Return the environment of the slider's task."""
    return environment.make(world.make(robot.load(write(folder, **changes)), engine), "slide")
