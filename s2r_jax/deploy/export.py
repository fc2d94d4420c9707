"""From a trained policy to a bundle; runs on the workstation."""

import datetime
import importlib.metadata
import io
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import onnx
import safetensors.numpy
from flax.traverse_util import flatten_dict
from onnx import helper, numpy_helper

from s2r_jax.deploy import bundle
from s2r_jax.deploy.bundle import Bundle
from s2r_jax.deploy.contract import Contract
from s2r_jax.deploy.describe import contract_of
from s2r_jax.errors import BadValue
from s2r_jax.observation import Term
from s2r_jax.robot import Robot
from s2r_jax.train import normalize
from s2r_jax.train import policy as policies
from s2r_jax.train.policy import Policy

#: Golden cases, a multiple of 4.
CASES = 32


def export(
    policy: Policy,
    robot: Robot,
    terms: Sequence[Term],
    path: Path,
    *,
    version: int = 1,
    validation: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
    has_stablehlo: bool = True,
) -> Bundle:
    """Write the bundle of a policy, and read it back with every check that the robot makes.

    Args:
        policy: As trained.
        robot: The machine that it was trained for.
        terms: Of its observation, in order.
        path: Of the bundle, `policy.s2r` by custom.
        version: Of the policy; a robot refuses to go back to a lower one.
        validation: Result of `s2r validate`.
        provenance: Of the run: seeds, configuration, identified parameters.
        has_stablehlo: Whether to add the policy as StableHLO too, for machines that run JAX.

    Raises:
        BadValue: A policy that is not finite, or of other sizes than the robot.
        BadBundle: The exported network does not answer as the policy does.
    """
    contract = contract_of(robot, terms)
    _check(policy, contract, str(path))
    members = {
        "policy.onnx": onnx_of(policy).SerializeToString(),
        "params.safetensors": _params(policy),
        "golden.npz": _golden(policy),
        "provenance.json": _json({**versions(), **(provenance or {})}),
    }
    if validation is not None:
        members["validation.json"] = _json(validation)
    if has_stablehlo:
        members["policy.stablehlo"] = _stablehlo(policy)
    return bundle.write(path, members, version, contract)


def onnx_of(policy: Policy) -> onnx.ModelProto:
    """Return the policy as ONNX: normaliser, layers, and the clipping of the action.

    Source: `train.policy.act`, operator by operator.
    """
    layers = policies.layers(policy)
    nodes = [
        helper.make_node("Sub", ["observation", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "std"], ["scaled"]),
        helper.make_node("Clip", ["scaled", "-cut", "cut"], ["hidden0"]),
    ]
    tensors: dict[str, Any] = {
        "mean": policy.mean,
        "std": policy.std,
        "-cut": -normalize.CUT,
        "cut": normalize.CUT,
        "-1": -1.0,
        "1": 1.0,
    }
    for k, (kernel, bias) in enumerate(layers):
        tensors |= {f"kernel{k}": kernel, f"bias{k}": bias}
        given = [f"hidden{k}", f"kernel{k}", f"bias{k}"]
        nodes.append(helper.make_node("Gemm", given, [f"linear{k}"]))
        if k + 1 < len(layers):
            nodes.append(helper.make_node("Elu", [f"linear{k}"], [f"hidden{k + 1}"]))
    nodes.append(helper.make_node("Clip", [f"linear{len(layers) - 1}", "-1", "1"], ["action"]))
    sizes = {"observation": policy.mean.shape[-1], "action": layers[-1][1].shape[-1]}
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, size])
        for name, size in sizes.items()
    ]
    constants = [
        numpy_helper.from_array(np.asarray(value, np.float32), name)
        for name, value in tensors.items()
    ]
    graph = helper.make_graph(nodes, "policy", ports[:1], ports[1:], constants)
    # Old enough for every runtime in use, new enough for Clip with tensors.
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def versions() -> dict[str, str]:
    """Return the versions that made a policy, and when."""
    names = ("s2r_jax", "jax", "flax", "mujoco", "numpy", "onnx")
    found = {name: importlib.metadata.version(name) for name in names}
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"exported": now, "python": platform.python_version(), **found}


def _check(policy: Policy, contract: Contract, place: str) -> None:
    sizes = [int(policy.mean.shape[-1]), int(policies.layers(policy)[-1][1].shape[-1])]
    expected = [contract.observation_size, contract.action_size]
    if sizes != expected:
        wanted = f"{expected}, the sizes of observation and action under the contract"
        raise BadValue(place, "policy", f"of sizes {sizes}", wanted)
    for name, value in _tensors(policy).items():
        if not np.isfinite(value).all():
            raise BadValue(place, f"policy: {name}", "not finite", "finite numbers")


def _tensors(policy: Policy) -> dict[str, np.ndarray]:
    flat = flatten_dict(dict(policy.actor), sep="/")
    arrays = {f"actor/{name}": np.asarray(value) for name, value in flat.items()}
    return {**arrays, "mean": np.asarray(policy.mean), "std": np.asarray(policy.std)}


def _params(policy: Policy) -> bytes:
    return safetensors.numpy.save(_tensors(policy))


def _golden(policy: Policy) -> bytes:
    """Return observations around what training saw, some far outside, and the policy's answers."""
    rng = np.random.default_rng(0)
    spread = np.repeat([0.3, 1.0, 3.0, 30.0], CASES // 4)[:, None]
    draws = spread * rng.standard_normal((CASES, policy.mean.shape[-1]))
    mean, std = np.asarray(policy.mean), np.asarray(policy.std)
    observation = (mean + std * draws).astype(np.float32)
    act = jax.jit(jax.vmap(lambda row: policies.act(policy, row)))
    action = np.asarray(act(jnp.asarray(observation)), np.float32)
    stream = io.BytesIO()
    np.savez(stream, observation=observation, action=action)
    return stream.getvalue()


def _stablehlo(policy: Policy) -> bytes:
    shape = jax.ShapeDtypeStruct(policy.mean.shape, jnp.float32)
    act = jax.jit(lambda observation: policies.act(policy, observation))
    return bytes(jax.export.export(act, platforms=("cpu", "cuda", "tpu"))(shape).serialize())


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()
