"""The start of a window as an unknown: a small displacement of the measured state.

Displacements live in the tangent space, `[2 nv]`: first of positions, then of velocities; a
rotation
is displaced in its body frame, as MuJoCo integrates it.
"""

import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float

from s2r_jax.identify.segments import Segments
from s2r_jax.robot import Robot
from s2r_jax.signals import Signal
from s2r_jax.sim.sensors import Sensors
from s2r_jax.sim.world import Simulator


def freedom(robot: Robot) -> Float[np.ndarray, " start"]:
    """Return the standard deviation of each displacement.

    Empty when the start is taken as measured.
    """
    position, velocity = robot.start_std
    if position == velocity == 0:
        return np.zeros(0)
    # A part that is held fixed keeps a trace of freedom, so that its precision is finite.
    floor = 1e-9
    nv = robot.model.nv
    return np.concatenate([np.full(nv, max(position, floor)), np.full(nv, max(velocity, floor))])


def displaced(
    model: mujoco.MjModel, segment: Segments, displacement: Float[Array, " start"]
) -> Segments:
    """Return one window with its start moved; an empty displacement changes nothing."""
    if displacement.size == 0:
        return segment
    nv = model.nv
    return segment._replace(
        qpos=integrate(model, jnp.asarray(segment.qpos, displacement.dtype), displacement[:nv]),
        qvel=jnp.asarray(segment.qvel, displacement.dtype) + displacement[nv:],
    )


def as_read(simulator: Simulator, sensors: Sensors, segment: Segments) -> Segments:
    """Return one window started where sensors with θ's bias and scale would have read its start.

    The state was estimated with the nominal ones. Speeds that are the derivative of a position
    scale with it.

    Args:
        simulator: Robot and parameters.
        sensors: Of the world.
        segment: One window.
    """
    fields = ("sensor.bias", "sensor.scale")
    if not any(effect.field in fields for effect in simulator.parameters.effects):
        return segment
    robot, model = simulator.robot, simulator.robot.model
    dtype = sensors.bias.dtype
    bias, scale = (jnp.asarray(robot.nominal(field), dtype) for field in fields)
    qpos, qvel = jnp.asarray(segment.qpos, dtype), jnp.asarray(segment.qvel, dtype)
    names = {signal.name for signal in robot.signals}
    for signal in robot.signals:
        if signal.kind not in ("joint", "body") or signal.attribute == "orientation":
            continue
        at = np.array(robot.signal_slices[signal.name])
        is_read = jnp.any(jnp.asarray(segment.weight)[:, at] > 0)
        ratio = jnp.where(is_read, scale[at] / sensors.scale[at], 1.0)
        shift = jnp.where(is_read, (bias[at] - sensors.bias[at]) / sensors.scale[at], 0.0)
        positions, speeds = _addresses(model, signal)
        is_position = signal.attribute == "position"
        if is_position:
            qpos = qpos.at[positions].set(ratio * qpos[positions] + shift)
        # Only where nothing better is known does a measured speed count, see `logs.state`.
        owner = f"{signal.kind}/{signal.element}"
        if is_position and (signal.kind == "joint" or f"{owner}/velocity" not in names):
            qvel = qvel.at[speeds].set(ratio * qvel[speeds])
        elif not is_position and (signal.kind == "body" or f"{owner}/position" not in names):
            qvel = qvel.at[speeds].set(ratio * qvel[speeds] + shift)
    return segment._replace(qpos=qpos, qvel=qvel)


def _addresses(model: mujoco.MjModel, signal: Signal) -> tuple[np.ndarray, np.ndarray]:
    """Return where a signal of a joint or a free body stands in qpos and qvel."""
    if signal.kind == "joint":
        joint = model.joint(signal.element).id
        return model.jnt_qposadr[[joint]], model.jnt_dofadr[[joint]]
    joint = model.body_jntadr[signal.address[0]]
    turning = 3 if signal.attribute == "angular_velocity" else 0
    return model.jnt_qposadr[joint] + np.arange(3), model.jnt_dofadr[joint] + turning + np.arange(3)


def integrate(
    model: mujoco.MjModel, qpos: Float[Array, " nq"], step: Float[Array, " nv"]
) -> Float[Array, " nq"]:
    """Return qpos moved by a tangent step, as `mj_integratePos` with dt 1; smooth at zero."""
    for joint in range(model.njnt):
        kind, q, v = model.jnt_type[joint], model.jnt_qposadr[joint], model.jnt_dofadr[joint]
        if kind in (int(mujoco.mjtJoint.mjJNT_SLIDE), int(mujoco.mjtJoint.mjJNT_HINGE)):
            qpos = qpos.at[q].add(step[v])
            continue
        if kind == int(mujoco.mjtJoint.mjJNT_FREE):
            qpos = qpos.at[q : q + 3].add(step[v : v + 3])
            q, v = q + 3, v + 3
        qpos = qpos.at[q : q + 4].set(_turned(qpos[q : q + 4], step[v : v + 3]))
    return qpos


def _turned(quat: Float[Array, "4"], turn: Float[Array, "3"]) -> Float[Array, "4"]:
    square = turn @ turn
    is_small = square < 1e-12  # sin(x/2)/x by its series there, exact to double precision
    angle = jnp.sqrt(jnp.where(is_small, 1.0, square))
    ratio = jnp.where(is_small, 0.5 - square / 48, jnp.sin(angle / 2) / angle)
    w1 = jnp.where(is_small, 1 - square / 8, jnp.cos(angle / 2))
    v1 = ratio * turn
    w0, v0 = quat[0], quat[1:]
    vector = w0 * v1 + w1 * v0 + jnp.cross(v0, v1)
    turned = jnp.concatenate([(w0 * w1 - v0 @ v1)[None], vector])
    return turned / jnp.linalg.norm(turned)
