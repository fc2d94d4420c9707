"""The elements of a MuJoCo model by name, and which of its geoms may touch.

Source of the contact rules: MuJoCo documentation, "Computation", sections on collision and contact
parameters; the list of pairs is MJX's own, so that both never disagree.
"""

import mujoco
import numpy as np
from mujoco.mjx._src import collision_driver

# Words of mjtObj where the fields abbreviate, and the other way round for the counts.
_KIND = {
    "jnt": "joint",
    "cam": "camera",
    "eq": "equality",
    "opt": "option",
    "mat": "material",
    "tex": "texture",
}
_COUNT = {"joint": "jnt", "camera": "cam", "equality": "eq", "material": "mat", "texture": "tex"}


def kind_of(field: str) -> str:
    """Return what the rows of a field are: body, joint, dof, geom, actuator, ..., option."""
    prefix = field.split(".")[0].split("_")[0].removesuffix("0")
    return _KIND.get(prefix, prefix)


def element_names(model: mujoco.MjModel, kind: str) -> list[str]:
    """Return the names of all elements of a kind, `kind 3` for the nameless fourth.

    Rows of `dof` and `qpos` are called after their joint, with a number where it has several.
    """
    if kind == "option":
        return ["option"]
    if kind == "pair":
        geoms = element_names(model, "geom")
        ends = zip(model.pair_geom1, model.pair_geom2, strict=True)
        return [f"{geoms[one]} and {geoms[two]}" for one, two in ends]
    if kind == "dof":
        return _parts_of_joints(model, model.jnt_dofadr, model.nv)
    if kind == "qpos":
        return _parts_of_joints(model, model.jnt_qposadr, model.nq)
    obj = getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}")
    count = getattr(model, f"n{_COUNT.get(kind, kind)}")
    return [mujoco.mj_id2name(model, obj, i) or f"{kind} {i}" for i in range(count)]


def _parts_of_joints(model: mujoco.MjModel, starts: np.ndarray, end: int) -> list[str]:
    names = []
    for joint, width in zip(element_names(model, "joint"), np.diff([*starts, end]), strict=True):
        names += [joint] if width == 1 else [f"{joint}[{part}]" for part in range(width)]
    return names


def touching(model: mujoco.MjModel) -> list[tuple[int, int, int]]:
    """Return the geom pairs that may touch, and the index of the `<pair>` that says so or -1."""
    off = mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    if model.opt.disableflags & off:
        return []
    return [(int(a), int(b), int(pair)) for a, b, pair in collision_driver.geom_pairs(model)]


def ruling_friction(model: mujoco.MjModel, one: int, two: int) -> np.ndarray:
    """Return sliding, torsional and rolling friction of a contact: higher priority, else larger."""
    first, second = model.geom_priority[[one, two]]
    if first != second:
        return model.geom_friction[one if first > second else two]
    return np.maximum(model.geom_friction[one], model.geom_friction[two])


def contact_dim(model: mujoco.MjModel, one: int, two: int, pair: int) -> int:
    """Return condim of a contact: the pair's own, that of higher priority, else the larger."""
    if pair >= 0:
        return int(model.pair_dim[pair])
    first, second = model.geom_priority[[one, two]]
    dims = model.geom_condim[[one, two]]
    return int(dims.max() if first == second else dims[int(second > first)])
