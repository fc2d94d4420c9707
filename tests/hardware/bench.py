"""A small robot of our own with every trap of a joint contract: an order, a sign, an offset."""

from pathlib import Path

from s2r_jax import robot as robots

MODEL = """
<mujoco model="bench">
  <option timestep="0.005"/>
  <worldbody>
    <body name="left">
      <joint name="left" axis="0 1 0" damping="0.02" armature="0.001"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.3"/>
    </body>
    <body name="right" pos="0 0.3 0">
      <joint name="right" axis="0 1 0" damping="0.02" armature="0.001"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.3"/>
    </body>
  </worldbody>
  <actuator><motor name="a" joint="left"/><motor name="b" joint="right"/></actuator>
</mujoco>
"""

ROBOT = """
name: bench
model: bench.xml
control: {period: 0.01}
joints:
  left: {sign: -1, offset: 0.3, low: -2, high: 2, default: 0.1, action_scale: 0.5}
  right: {low: -2, high: 2}
motors: {kind: pd, kp: 3, kd: 0.1}
battery: {voltage: 12}
signals:
  joint/left/position: {noise: 0.01, quantum: 0.001}
  joint/left/velocity:
  joint/right/position:
  motor/a/torque:
parameters:
  - {target: joint/*/damping, bounds: [0.01, 1.0], transform: log, share: true, name: damping}
  - {target: body/left/mass, bounds: [0.2, 0.4], transform: logit, unit: kg}
  - {target: latency/action, bounds: [0.0, 0.02], unit: s}
"""


ONE_JOINT = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <body><joint name="left" axis="0 1 0"/><geom size="0.1"/></body>
  </worldbody>
  <actuator>{}</actuator>
</mujoco>
"""


def load(folder: Path, text: str = ROBOT, actuator: str = "") -> robots.Robot:
    """Return the robot in a folder; `actuator` replaces the model by one joint with it."""
    (folder / "bench.xml").write_text(MODEL)
    (folder / "one.xml").write_text(ONE_JOINT.format(actuator))
    (folder / "robot.yaml").write_text(text)
    return robots.load(folder)
