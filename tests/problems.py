"""Small MuJoCo models of our own that the tests share.

Each model carries a keyframe named `start`: a state (and controls) in which its constraints are at
work. In 100 steps from there a contact or a limit may come and go, but at the same steps for all
starts nearby, so that the state afterwards is a smooth function of everything.
"""

import mujoco
import numpy as np

# Swings freely; no constraint at all.
PENDULUM = """
<mujoco model="pendulum">
  <option timestep="0.005"/>
  <worldbody>
    <body name="pole">
      <joint name="hinge" axis="0 1 0" damping="0.02"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02" mass="0.4"/>
    </body>
  </worldbody>
  <actuator><motor name="torque" joint="hinge"/></actuator>
  <keyframe><key name="start" qpos="0.6" qvel="-0.5" ctrl="0.1"/></keyframe>
</mujoco>
"""

# Six joints with friction loss and limits: 18 unknowns (damping, armature, frictionloss).
ARM = """
<mujoco model="arm">
  <compiler angle="radian"/>
  <option timestep="0.002" integrator="implicitfast"/>
  <default>
    <joint damping="0.4" armature="0.05" frictionloss="0.3" range="-2.5 2.5"/>
    <geom type="capsule" size="0.03" density="900" contype="0" conaffinity="0"/>
  </default>
  <worldbody>
    <body name="link1" pos="0 0 0.1">
      <joint name="joint1" axis="0 0 1"/>
      <geom fromto="0 0 0 0 0 0.2"/>
      <body name="link2" pos="0 0 0.2">
        <joint name="joint2" axis="0 1 0"/>
        <geom fromto="0 0 0 0.3 0 0"/>
        <body name="link3" pos="0.3 0 0">
          <joint name="joint3" axis="0 1 0"/>
          <geom fromto="0 0 0 0.25 0 0"/>
          <body name="link4" pos="0.25 0 0">
            <joint name="joint4" axis="1 0 0" frictionloss="0.1" damping="0.1" armature="0.02"/>
            <geom fromto="0 0 0 0.1 0 0"/>
            <body name="link5" pos="0.1 0 0">
              <joint name="joint5" axis="0 1 0" frictionloss="0.1" damping="0.1" armature="0.02"/>
              <geom fromto="0 0 0 0.1 0 0"/>
              <body name="link6" pos="0.1 0 0">
                <joint name="joint6" axis="1 0 0" frictionloss="0.05" damping="0.05"
                  armature="0.01"/>
                <geom type="box" size="0.04 0.02 0.02" pos="0.04 0 0.02"/>
              </body>
            </body>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position joint="joint1" kp="40" kv="2"/>
    <position joint="joint2" kp="60" kv="3"/>
    <position joint="joint3" kp="40" kv="2"/>
    <position joint="joint4" kp="10" kv="0.5"/>
    <position joint="joint5" kp="10" kv="0.5"/>
    <position joint="joint6" kp="5" kv="0.2"/>
  </actuator>
  <keyframe>
    <key name="start" qpos="0 -0.4 0.8 0.2 0.3 -0.1" qvel="1 -1 1.5 -2 2 -2"
      ctrl="1.5 0.9 -0.7 1.3 -1.2 1.5"/>
  </keyframe>
</mujoco>
"""

# Two links leaning into their limits, one of them soft with a margin; a ball joint beyond its cone.
LIMITS = """
<mujoco model="limits">
  <compiler angle="radian"/>
  <option timestep="0.002"/>
  <default><geom contype="0" conaffinity="0" density="1000"/></default>
  <worldbody>
    <body name="upper">
      <joint name="shoulder" axis="0 1 0" range="-0.4 0.4" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02"/>
      <body name="lower" pos="0 0 -0.3">
        <joint name="elbow" axis="0 1 0" range="0 1" margin="0.05" solreflimit="0.05 1"
          damping="0.1"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02"/>
      </body>
    </body>
    <body name="bob" pos="0 0.5 0">
      <joint name="ball" type="ball" range="0 0.5" damping="0.05" stiffness="0.2"/>
      <geom type="box" size="0.05 0.03 0.1" pos="0 0 -0.2"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="shoulder" gear="3"/>
    <motor joint="elbow" gear="3"/>
  </actuator>
  <keyframe>
    <key name="start" qpos="0.42 0.02 0.955 0.25 0.155 0.03" qvel="0.1 -0.1 0.3 0.1 0.4"
      ctrl="1 -0.8"/>
  </keyframe>
</mujoco>
"""

# A four-bar linkage closed by `connect`, a bar welded to it, an inactive weld; solved by CG.
CLOSED_CHAIN = """
<mujoco model="closed chain">
  <option timestep="0.002" solver="CG" iterations="300"/>
  <default><geom type="capsule" size="0.02" contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="crank">
      <joint name="crank" axis="0 1 0" damping="0.1"/>
      <geom fromto="0 0 0 0 0 0.2"/>
      <body name="coupler" pos="0 0 0.2">
        <joint name="coupler" axis="0 1 0" damping="0.1"/>
        <geom fromto="0 0 0 0.4 0 0"/>
      </body>
    </body>
    <body name="rocker" pos="0.4 0 0">
      <joint name="rocker" axis="0 1 0" damping="0.1"/>
      <geom fromto="0 0 0 0 0 0.2"/>
    </body>
    <body name="load" pos="0.2 0 0.3">
      <freejoint name="load"/>
      <geom type="box" size="0.05 0.04 0.03"/>
    </body>
  </worldbody>
  <equality>
    <connect body1="coupler" body2="rocker" anchor="0.4 0 0"/>
    <weld body1="load" body2="coupler" solref="0.03 1"/>
    <weld body1="load" body2="rocker" active="false"/>
  </equality>
  <actuator><motor joint="crank"/></actuator>
  <keyframe>
    <key name="start" qpos="0.02 -0.01 0.015 0.2 0.001 0.301 1 0.01 0.01 0"
      qvel="1 -1 1 0.1 0 0 0 0.2 0" ctrl="2"/>
  </keyframe>
</mujoco>
"""

# Fixed and spatial tendons with limits, friction loss, springs; equalities of joints and tendons.
TENDON = """
<mujoco model="tendon">
  <option timestep="0.002"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <site name="anchor" pos="0.1 0 0.1"/>
    <body name="left">
      <joint name="left" axis="0 1 0" damping="0.05"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02"/>
      <site name="tip" pos="0 0 -0.3"/>
    </body>
    <body name="right" pos="0.3 0 0">
      <joint name="right" axis="0 1 0" damping="0.05" armature="0.01"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.25" size="0.02"/>
    </body>
    <body name="third" pos="0.6 0 0">
      <joint name="third" axis="0 1 0" damping="0.05" armature="0.01"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02"/>
    </body>
    <body name="fourth" pos="0.9 0 0">
      <joint name="fourth" axis="0 1 0" damping="0.05" armature="0.01"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02"/>
    </body>
  </worldbody>
  <tendon>
    <fixed name="coupling" frictionloss="0.05" stiffness="0.5" damping="0.02">
      <joint joint="left" coef="1"/>
      <joint joint="right" coef="-0.6"/>
    </fixed>
    <spatial name="cable" limited="true" range="0.1 0.4" frictionloss="0.1">
      <site site="anchor"/>
      <site site="tip"/>
    </spatial>
    <fixed name="sum"><joint joint="third" coef="1"/><joint joint="right" coef="0.5"/></fixed>
    <fixed name="single"><joint joint="left" coef="1"/></fixed>
  </tendon>
  <equality>
    <tendon tendon1="sum" tendon2="single" polycoef="0.1 0.5 0.2 0 0"/>
    <joint joint1="fourth" joint2="third" polycoef="0.05 0.8 0.3 0 0"/>
  </equality>
  <actuator>
    <motor joint="left" gear="0.5"/>
    <position tendon="coupling" kp="1"/>
  </actuator>
  <keyframe>
    <key name="start" qpos="-0.2 0.1 0 0.05" qvel="-0.5 1 0.4 0.3" ctrl="1 0.5"/>
  </keyframe>
</mujoco>
"""

# A box that falls 5 cm, lands at step 30 and slides on four contacts from step 43 on, drawn and
# pressed by a force off its centre.
_BOX = """
<mujoco model="tossed box">
  <option timestep="0.002" cone="{cone}" impratio="{impratio}"/>
  <default><geom friction="0.15 0.005 0.0001" solref="0.08 1"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" friction="0.2 0.005 0.0001"/>
    <body name="box" pos="0 0 0.05">
      <freejoint name="box"/>
      <geom name="box" type="box" size="0.1 0.08 0.05" mass="1"/>
      <site name="handle" pos="0.02 0.02 -0.03"/>
    </body>
  </worldbody>
  <actuator><motor site="handle" gear="1 0.5 -10 0 0 0"/></actuator>
  <keyframe>
    <key name="start" qpos="0 0 {z} 1 0 0 0.05" qvel="1.5 0.4 0 0 0 1" ctrl="1"/>
  </keyframe>
</mujoco>
"""
TOSSED_BOX = _BOX.format(cone="pyramidal", impratio=1, z=0.09984)
TOSSED_BOX_ELLIPTIC = _BOX.format(cone="elliptic", impratio=5, z=0.09917)

# A ball that rolls (and slips) on two floors: rolling and torsional friction under both cones.
_SPHERE = """
<mujoco model="rolling sphere">
  <option timestep="0.002" cone="{cone}"/>
  <default><geom friction="0.6 0.02 0.01" condim="6" solref="0.08 1"/></default>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1"/>
    <body name="ball" pos="0 0 0.1">
      <freejoint name="ball"/>
      <geom name="ball" type="sphere" size="0.1" mass="0.5" friction="0.5 0.015 0.008"/>
      <site name="centre"/>
    </body>
  </worldbody>
  <actuator><motor site="centre" gear="0 0 0 0 0.02 0"/></actuator>
  <keyframe>
    <key name="start" qpos="0 0 {z} 1 0 0 0" qvel="1 0.3 0 -2 8 1" ctrl="0.5"/>
  </keyframe>
</mujoco>
"""
ROLLING_SPHERE = _SPHERE.format(cone="pyramidal", z=0.09951)
ROLLING_SPHERE_ELLIPTIC = _SPHERE.format(cone="elliptic", z=0.09686)

# A capsule sliding down a slope with torsional friction, integrated by Runge-Kutta 4.
CAPSULE_SLOPE = """
<mujoco model="capsule on a slope">
  <option timestep="0.002" integrator="RK4"/>
  <default><geom friction="0.2 0.01 0.0001" condim="4" solref="0.08 1"/></default>
  <worldbody>
    <geom name="slope" type="plane" size="5 5 1" euler="0 25 0"/>
    <body name="capsule" pos="0 0 0.06" euler="0 25 0">
      <freejoint name="capsule"/>
      <geom name="capsule" type="capsule" size="0.05 0.1" euler="0 90 0" mass="0.5"
        friction="0.15 0.008 0.0001"/>
      <site name="centre"/>
    </body>
  </worldbody>
  <actuator><motor site="centre" gear="0 1 0 0 0 0"/></actuator>
  <keyframe>
    <key name="start" qpos="0 0 0.05499 0.97629601 0 0.21643961 0" qvel="0.5 0.1 -0.233 0 0 0.6"
      ctrl="0.1"/>
  </keyframe>
</mujoco>
"""

# Two legs of two joints each under a trunk that is free in its plane; both feet on the ground.
LEGGED = """
<mujoco model="legged toy">
  <option timestep="0.002" integrator="implicitfast"/>
  <default>
    <joint damping="0.5" armature="0.01" frictionloss="0.05" axis="0 1 0"/>
    <geom type="capsule" size="0.02" density="800" contype="0" conaffinity="0"/>
    <position kp="60" kv="2"/>
    <default class="foot">
      <geom type="sphere" size="0.03" contype="1" conaffinity="1" friction="0.7 0.005 0.0001"/>
    </default>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" contype="1" conaffinity="1"
      friction="0.8 0.005 0.0001"/>
    <body name="trunk" pos="0 0 0.42">
      <freejoint name="root"/>
      <geom type="box" size="0.15 0.12 0.04"/>
      <body name="thigh1" pos="0.12 0.1 0">
        <joint name="hip1"/>
        <geom fromto="0 0 0 0 0 -0.2"/>
        <body name="shin1" pos="0 0 -0.2">
          <joint name="knee1"/>
          <geom fromto="0 0 0 0 0 -0.2"/>
          <geom name="foot1" class="foot" pos="0 0 -0.2"/>
        </body>
      </body>
      <body name="thigh2" pos="-0.12 0.1 0">
        <joint name="hip2"/>
        <geom fromto="0 0 0 0 0 -0.2"/>
        <body name="shin2" pos="0 0 -0.2">
          <joint name="knee2"/>
          <geom fromto="0 0 0 0 0 -0.2"/>
          <geom name="foot2" class="foot" pos="0 0 -0.2"/>
        </body>
      </body>
      <body name="thigh3" pos="0 -0.1 0">
        <joint name="hip3"/>
        <geom fromto="0 0 0 0 0 -0.2"/>
        <body name="shin3" pos="0 0 -0.2">
          <joint name="knee3"/>
          <geom fromto="0 0 0 0 0 -0.2"/>
          <geom name="foot3" class="foot" pos="0 0 -0.2"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position joint="hip1"/><position joint="knee1"/>
    <position joint="hip2"/><position joint="knee2"/>
    <position joint="hip3"/><position joint="knee3"/>
  </actuator>
  <keyframe>
    <key name="start" qpos="0 0 0.4195 1 0 0 0 0.2 -0.4 0.2 -0.4 0.2 -0.4"
      qvel="0 0 0 0 0 0 0 0 0 0 0 0" ctrl="0.2 -0.4 0.2 -0.4 0.25 -0.45"/>
  </keyframe>
</mujoco>
"""

# 31 double pendulums with friction loss in one tree: 62 joints, a sparse inertia.
FOREST = (
    """
<mujoco model="forest">
  <option timestep="0.002" jacobian="sparse"/>
  <default>
    <joint axis="0 1 0" damping="0.02" armature="0.001"/>
    <geom type="capsule" size="0.02" contype="0" conaffinity="0"/>
  </default>
  <worldbody>
"""
    + "".join(
        f"""
    <body pos="0 {0.1 * i} 0">
      <joint name="upper{i}" frictionloss="0.02"/>
      <geom fromto="0 0 0 0 0 -0.2"/>
      <body pos="0 0 -0.2">
        <joint name="lower{i}"/>
        <geom fromto="0 0 0 0 0 {-0.1 - 0.005 * i}"/>
      </body>
    </body>"""
        for i in range(31)
    )
    + """
  </worldbody>
  <actuator><motor joint="upper0"/><motor joint="lower30"/></actuator>
  <keyframe>
    <key name="start" qpos="""
    + '"'
    + " ".join(f"{0.5 + 0.01 * i}" for i in range(62))
    + '"'
    + """ ctrl="0.1 -0.1"/>
  </keyframe>
</mujoco>
"""
)

# A pair of bodies joined by a ball joint, one floating: rotations without contact.
BALL_JOINT = """
<mujoco model="ball joint">
  <option timestep="0.005" gravity="0 0 -1"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <body name="ship">
      <freejoint name="ship"/>
      <geom type="box" size="0.2 0.1 0.05" mass="1"/>
      <site name="thruster" pos="-0.2 0.05 0"/>
      <body name="mast" pos="0 0 0.05">
        <joint name="mast" type="ball" stiffness="0.5" damping="0.01"/>
        <geom type="capsule" fromto="0 0 0 0.05 0 0.3" size="0.02" mass="0.2"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor site="thruster" gear="1 0 0.2 0 0 0"/></actuator>
  <keyframe><key name="start" ctrl="0.5"/></keyframe>
</mujoco>
"""

MODELS = {
    "pendulum": PENDULUM,
    "arm": ARM,
    "limits": LIMITS,
    "closed_chain": CLOSED_CHAIN,
    "tendon": TENDON,
    "tossed_box": TOSSED_BOX,
    "tossed_box_elliptic": TOSSED_BOX_ELLIPTIC,
    "rolling_sphere": ROLLING_SPHERE,
    "rolling_sphere_elliptic": ROLLING_SPHERE_ELLIPTIC,
    "capsule_slope": CAPSULE_SLOPE,
    "legged": LEGGED,
    "forest": FOREST,
    "ball_joint": BALL_JOINT,
}


def load(name: str) -> mujoco.MjModel:
    """Compile a model of the registry."""
    return mujoco.MjModel.from_xml_string(MODELS[name])


def start(model: mujoco.MjModel) -> mujoco.MjData:
    """Return data of the model at its keyframe `start`, nothing computed yet."""
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("start").id)
    return data


def controls(model: mujoco.MjModel, steps: int) -> np.ndarray:
    """Return the controls of the keyframe with a slow wave of 10 % on top, one row a step."""
    wave = 1 + 0.1 * np.sin(np.linspace(0, 3, steps))
    return wave[:, None] * model.key("start").ctrl
