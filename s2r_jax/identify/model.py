"""The identified model as an MJCF.

What θ says of the physics engine, written back into the robot's model.
"""

import copy

import mujoco
import numpy as np
from jaxtyping import Float

from s2r_jax import targets
from s2r_jax.parameters import ParameterSet, apply, is_model_field
from s2r_jax.robot import Robot


def with_theta(robot: Robot, theta: Float[np.ndarray, " param"]) -> mujoco.MjModel:
    """Return the compiled model at θ.

    Quantities outside the engine (motors, latency, sensors) are not in it.
    """
    model = copy.copy(robot.model)
    inside = ParameterSet(
        effects=tuple(e for e in robot.parameters.effects if is_model_field(e.field))
    )
    nominal = {name: targets.model_field(model, name) for name in inside.fields}
    for name, value in apply(inside, np.asarray(theta, dtype=float), nominal, xp=np).items():
        targets.model_field(model, name)[...] = value
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def to_xml(robot: Robot, theta: Float[np.ndarray, " param"]) -> str:
    """Return the MJCF of the model at θ."""
    spec = robot.spec.copy()
    spec.compile()
    spec.copy_back(with_theta(robot, theta))
    return spec.to_xml()
