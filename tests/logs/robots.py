"""Models of one joint, of two joints and of a free body."""

from collections.abc import Callable

from s2r_jax import robot

SERVO = """
<mujoco model="servo">
  <option timestep="0.005"/>
  <worldbody>
    <body name="arm">
      <joint name="hinge" axis="0 1 0"/>
      <geom type="sphere" size="0.02" pos="0 0 -0.1" mass="0.5"/>
    </body>
  </worldbody>
  <actuator><motor name="servo" joint="hinge"/></actuator>
</mujoco>
"""

PAIR = """
<mujoco model="pair">
  <option timestep="0.002"/>
  <worldbody>
    <body name="upper">
      <joint name="shoulder" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.5"/>
      <body name="lower" pos="0 0 -0.2">
        <joint name="elbow" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="0.5"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="upper_motor" joint="shoulder"/>
    <motor name="lower_motor" joint="elbow"/>
  </actuator>
</mujoco>
"""

CUBE = """
<mujoco model="cube">
  <option timestep="0.0006756756756756757"/>
  <worldbody>
    <body name="cube"><freejoint/><geom type="box" size="0.05 0.05 0.05" mass="0.37"/></body>
  </worldbody>
</mujoco>
"""

Maker = Callable[..., robot.Robot]
