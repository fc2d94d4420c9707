"""The physics engines behind one interface; pick one with `make`."""

import importlib.util

import jax
import mujoco
import numpy as np

from s2r_jax.errors import UnknownName
from s2r_jax.parameters import ParameterSet
from s2r_jax.sim.engines.acting import promoted
from s2r_jax.sim.engines.physics import Drive, Engine, Motion, Physics, by_controls

ENGINES = ("mujoco", "mjx", "warp")


def choose(name: str, needs_gradient: bool, on_gpu: bool) -> str:
    """Return the engine that `auto` means here; any other name is returned as it is.

    Gradients need `mjx`. Without them the fastest is `warp` on an NVIDIA GPU where it is installed
    and numbers are float32, `mjx` on any other accelerator, and `mujoco` on a CPU.

    Args:
        name: An engine, or `auto`.
        needs_gradient: Whether a simulation will be differentiated.
        on_gpu: Whether JAX computes on an accelerator by default.
    """
    if name != "auto":
        return name
    if needs_gradient:
        return "mjx"
    if not on_gpu:
        return "mujoco"
    has_warp = importlib.util.find_spec("warp") is not None
    is_single = jax.dtypes.canonicalize_dtype(np.float64) == np.float32
    return "warp" if has_warp and is_single and _is_nvidia(jax.devices()[0]) else "mjx"


def _is_nvidia(device: jax.Device) -> bool:
    """Tell CUDA from ROCm, which JAX also calls a `gpu`."""
    return device.platform == "gpu" and "cuda" in device.client.platform_version.lower()


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


__all__ = ["ENGINES", "Drive", "Engine", "Motion", "Physics", "by_controls", "choose", "make"]
