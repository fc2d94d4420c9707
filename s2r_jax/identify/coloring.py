"""Which columns of the Jacobian can share one simulation.

The legs of a robot on a stand are independent trees on a fixed base: what moves one of them moves
no signal of another. Unknowns of different trees then share one tangent, or one pair of
differences, and are told apart by the signals that answer: 49 columns of four legs become 13.
Where independence is not certain from the model, every column is simulated on its own.

Source: Curtis, Powell, Reid, "On the estimation of sparse Jacobian matrices", IMA Journal of
Applied Mathematics 13 (1974) 117.
"""

from typing import NamedTuple

import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from s2r_jax.parameters import INERTIAL
from s2r_jax.sim.world import Simulator

#: Sensors that depend on the motion of the one tree that holds their joint, site or body.
_OWN = {
    int(getattr(mujoco.mjtSensor, f"mjSENS_{name}"))
    for name in (
        "JOINTPOS", "JOINTVEL", "JOINTACTFRC", "ACCELEROMETER", "VELOCIMETER", "GYRO", "FORCE",
        "TORQUE", "FRAMEPOS", "FRAMEQUAT", "FRAMELINVEL", "FRAMEANGVEL",
    )
}  # fmt: skip
#: Transmissions that act on one joint.
_ON_JOINT = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)


class Coloring(NamedTuple):
    """Colours of the unknowns: those of one colour move disjoint sets of signals."""

    color: Int[np.ndarray, " column"]
    moves: Bool[np.ndarray, "sensor column"]
    """Whether an unknown can move a signal."""

    @property
    def seeds(self) -> Float[np.ndarray, "color column"]:
        """The directions to differentiate in, one a colour."""
        colors = np.arange(self.color.max(initial=-1) + 1)
        return (self.color == colors[:, None]).astype(float)


def coloring(simulator: Simulator, starts: int) -> Coloring:
    """Return the colours of θ and of the displacements of a window's start.

    Args:
        simulator: Robot and parameters.
        starts: Displacements of a start: none, or positions and velocities of all dofs.
    """
    of_signals = _trees_of_signals(simulator) if _is_uncoupled(simulator) else None
    if of_signals is None:
        size = len(simulator.parameters) + starts
        sensors = sum(signal.size for signal in simulator.robot.signals)
        return Coloring(np.arange(size), np.ones((sensors, size), bool))
    rows = [_trees_of_parameters(simulator)]
    if starts:
        rows += 2 * [_one_hot(simulator, simulator.robot.model.dof_treeid)]
    trees = np.concatenate(rows)
    return Coloring(_greedy(trees), of_signals @ trees.T)


def expand(
    slope: Float[Array, "*windows sensor color"], colors: Coloring
) -> Float[Array, "*windows sensor column"]:
    """Return the column of each unknown from those of the colours."""
    if len(colors.color) == slope.shape[-1]:
        return slope
    return jnp.where(colors.moves, slope[..., colors.color], 0.0)


def _greedy(trees: Bool[np.ndarray, "column tree"]) -> Int[np.ndarray, " column"]:
    """Return the first colour of each unknown whose members so far touch none of its trees."""
    taken: list[np.ndarray] = []
    colors = np.zeros(len(trees), int)
    for column, own in enumerate(trees):
        free = [k for k, others in enumerate(taken) if not (others & own).any()]
        colors[column] = free[0] if free else len(taken)
        if free:
            taken[free[0]] = taken[free[0]] | own
        else:
            taken.append(own)
    return colors


def _is_uncoupled(simulator: Simulator) -> bool:
    """Tell whether nothing passes between the trees but the ground that they stand on."""
    model = simulator.robot.model
    # What may tie trees together is taken to do so; numbers in <custom> may limit MJX's contacts.
    ties = (model.neq, model.ntendon, model.nflex, model.nplugin, model.nnumeric)
    if model.ntree < 2 or any(ties):
        return False
    if not np.isin(model.actuator_trntype, _ON_JOINT).all():
        return False
    return not _may_touch(model) and not _shares_battery(simulator)


def _may_touch(model: mujoco.MjModel) -> bool:
    """Tell whether geoms of two trees can collide; contact with the ground ties no trees."""
    off = mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    if model.opt.disableflags & off:
        return False
    tree = model.body_treeid[model.geom_bodyid]
    pairs = tree[model.pair_geom1], tree[model.pair_geom2]
    declared = (pairs[0] >= 0) & (pairs[1] >= 0) & (pairs[0] != pairs[1])
    may = (model.geom_contype[:, None] & model.geom_conaffinity) != 0
    apart = (tree[:, None] >= 0) & (tree >= 0) & (tree[:, None] != tree)
    return bool(declared.any() or (may & apart).any())


def _shares_battery(simulator: Simulator) -> bool:
    """Tell whether the current of one motor can lower the voltage of another.

    Any charge taken does, if only a little.
    """
    robot, constant = simulator.robot, "motor.torque_constant"
    is_moved = any(effect.field == constant for effect in simulator.parameters.effects)
    return robot.motors.kind != "native" and (is_moved or bool(robot.nominal(constant).any()))


def _trees_of_parameters(simulator: Simulator) -> Bool[np.ndarray, "param tree"]:
    """Return which trees each parameter acts on; all of them where it is not certain."""
    found = np.zeros((len(simulator.parameters), simulator.robot.model.ntree), bool)
    for effect in simulator.parameters.effects:
        trees = _trees_of_field(simulator, effect.field)
        for index, param in zip(effect.indices, effect.params, strict=True):
            found[param] |= True if trees is None else trees[index]
    return found


def _trees_of_field(simulator: Simulator, field: str) -> Bool[np.ndarray, "entry tree"] | None:
    """Return the trees that each entry of a flat field acts on; None where it is not certain."""
    model = simulator.robot.model
    owner = field.split(".")[0] if "." in field else field.split("_")[0]
    joints = model.body_treeid[model.jnt_bodyid]
    if owner == "sensor":
        return _trees_of_signals(simulator)
    of_rows = {
        "motor": _trees_of_actuators(model),
        "actuator": _trees_of_actuators(model),
        "dof": model.dof_treeid,
        "jnt": joints,
        "body": model.body_treeid,
        "payload": model.body_treeid,
        "inertia": model.body_treeid,
        "geom": model.body_treeid[model.geom_bodyid],
        "site": model.body_treeid[model.site_bodyid],
    }
    if owner not in of_rows:
        return None
    width = INERTIAL.get(field) or simulator.robot.nominal(field)[0].size
    return np.repeat(_one_hot(simulator, of_rows[owner]), width, axis=0)


def _trees_of_actuators(model: mujoco.MjModel) -> Int[np.ndarray, " nu"]:
    # Only called where every transmission is a joint's, or to be discarded.
    return model.body_treeid[model.jnt_bodyid[model.actuator_trnid[:, 0]]]


def _trees_of_signals(simulator: Simulator) -> Bool[np.ndarray, "sensor tree"] | None:
    """Return the tree of each entry of the sensor vector; None where one has none or several."""
    model = simulator.robot.model
    found: list[int] = []
    for signal in simulator.robot.signals:
        tree = -1
        if signal.kind == "joint":
            tree = model.body_treeid[model.jnt_bodyid[model.joint(signal.element).id]]
        elif signal.kind == "body":
            tree = model.body_treeid[signal.address[0]]
        elif signal.kind == "motor":
            tree = _trees_of_actuators(model)[signal.address[0]]
        elif signal.kind == "sensor":
            tree = _tree_of_sensor(model, model.sensor(signal.element).id)
        found += signal.size * [int(tree)]
    trees = np.array(found, int)
    return None if (trees < 0).any() else _one_hot(simulator, trees)


def _tree_of_sensor(model: mujoco.MjModel, sensor: int) -> int:
    """Return the one tree that a sensor depends on, or -1."""
    if int(model.sensor_type[sensor]) not in _OWN or model.sensor_refid[sensor] >= 0:
        return -1
    bodies = {
        int(mujoco.mjtObj.mjOBJ_JOINT): model.jnt_bodyid,
        int(mujoco.mjtObj.mjOBJ_SITE): model.site_bodyid,
        int(mujoco.mjtObj.mjOBJ_GEOM): model.geom_bodyid,
        int(mujoco.mjtObj.mjOBJ_BODY): np.arange(model.nbody),
        int(mujoco.mjtObj.mjOBJ_XBODY): np.arange(model.nbody),
    }
    of_kind = bodies.get(int(model.sensor_objtype[sensor]))
    return -1 if of_kind is None else int(model.body_treeid[of_kind[model.sensor_objid[sensor]]])


def _one_hot(
    simulator: Simulator, trees: Int[np.ndarray, " entry"]
) -> Bool[np.ndarray, "entry tree"]:
    """Return the set of trees of each entry; what is part of the ground may act on all."""
    every = np.arange(simulator.robot.model.ntree)
    return (trees[:, None] == every) | (trees[:, None] < 0)
