"""The physics engines behind one interface; pick one with `make`."""

import mujoco

from s2r_jax.errors import UnknownName
from s2r_jax.parameters import ParameterSet
from s2r_jax.sim.engines.acting import promoted
from s2r_jax.sim.engines.physics import Drive, Engine, Physics

ENGINES = ("mujoco", "mjx", "warp")


def choose(name: str, needs_gradient: bool, on_gpu: bool) -> str:
    """Return the engine that `auto` means here.

    Gradients need `mjx`, a CPU without gradients is fastest on `mujoco`.
    """
    if name != "auto":
        return name
    return "mjx" if needs_gradient or on_gpu else "mujoco"


def make(name: str, model: mujoco.MjModel, parameters: ParameterSet, sensors: bool) -> Engine:
    """Return the engine of that name for one model and parameter set.

    All engines are given the same model, in which every parameter acts (`acting.promoted`).

    Args:
        name: mujoco, mjx or warp.
        model: Compiled model with the nominal values.
        parameters: What θ touches.
        sensors: Whether `Physics.sensordata` is wanted.

    Raises:
        UnknownName: No such engine.
        Unsupported: The model has a feature that this engine ignores or lacks, or a parameter
            moves nothing.
    """
    if name not in ENGINES:
        raise UnknownName("engine", name, (*ENGINES, "auto"), "engine")
    model = promoted(name, model, parameters)
    if name == "mujoco":
        from s2r_jax.sim.engines.c import CEngine

        return CEngine(model, parameters, sensors)
    if name == "mjx":
        from s2r_jax.sim.engines.mjx import MjxEngine

        return MjxEngine(model, parameters, sensors)
    from s2r_jax.sim.engines.warp import WarpEngine

    return WarpEngine(model, parameters, sensors)


__all__ = ["ENGINES", "Drive", "Engine", "Physics", "choose", "make"]
