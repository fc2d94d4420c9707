"""A trained policy: the actor's weights and the normaliser of its observation, without pickle.

A policy is a folder of two files: `policy.safetensors` holds the arrays, `policy.json` what a
reader must know to use them.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Array, Float
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from s2r_jax import files
from s2r_jax.errors import BadBundle, MissingFile
from s2r_jax.observation import Term
from s2r_jax.train import normalize
from s2r_jax.train.networks import ACTIVATION, MLP

ARRAYS, DESCRIPTION = "policy.safetensors", "policy.json"


class Policy(NamedTuple):
    """Actor and normaliser. `act` is its meaning."""

    actor: Mapping[str, Any]
    """Flax parameters of `networks.MLP`."""
    mean: Float[Array, " obs"]
    """Of the observation during training."""
    std: Float[Array, " obs"]


def act(policy: Policy, observation: Float[Array, " obs"]) -> Float[Array, " nu"]:
    """Return the action in [-1, 1], without exploration."""
    widths = tuple(bias.shape[-1] for _, bias in layers(policy))
    inputs = normalize.apply(observation, policy.mean, policy.std)
    action = MLP(widths).apply({"params": policy.actor}, inputs)
    return jnp.clip(jnp.asarray(action), -1.0, 1.0)


def layers(policy: Policy) -> list[tuple[Array, Array]]:
    """Return kernel `[input, output]` and bias `[output]` of every layer, in order."""
    names = [f"Dense_{k}" for k in range(len(policy.actor))]
    return [(policy.actor[name]["kernel"], policy.actor[name]["bias"]) for name in names]


def save(policy: Policy, terms: Sequence[Term], folder: Path, task: str) -> None:
    """Write a policy and the observation that it expects.

    Args:
        policy: Weights and normaliser.
        terms: Of the observation, in order.
        folder: Created where it does not exist.
        task: Name of the task that it was trained for.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"actor/{k}": v for k, v in flatten_dict(policy.actor, sep="/").items()}
    tensors |= {"mean": policy.mean, "std": policy.std}
    sizes = [policy.mean.shape[-1], *[bias.shape[-1] for _, bias in layers(policy)]]
    described = {
        "task": task,
        "sizes": sizes,
        "activation": ACTIVATION,
        "cut": normalize.CUT,
        "observation": [term._asdict() for term in terms],
    }
    with files.whole(folder / ARRAYS) as beside:
        save_file({name: np.asarray(value) for name, value in tensors.items()}, beside)
    with files.whole(folder / DESCRIPTION) as beside:
        beside.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")


def load(folder: Path) -> tuple[Policy, tuple[Term, ...]]:
    """Return what `save` wrote, bit for bit.

    Raises:
        MissingFile: One of the two files is not there.
        BadBundle: A file is damaged, or the two do not belong together.
    """
    for name in (ARRAYS, DESCRIPTION):
        if not (folder / name).is_file():
            raise MissingFile(folder / name, "file", "s2r train writes it")
    try:
        tensors = load_file(folder / ARRAYS)
    except SafetensorError as error:
        raise BadBundle(str(folder / ARRAYS), f"not a safetensors file ({error})") from None
    try:
        described = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        terms = tuple(
            Term(t["kind"], tuple(t["indices"]), t["offset"], t["scale"])
            for t in described["observation"]
        )
        sizes, activation = described["sizes"], described["activation"]
    except (ValueError, KeyError, TypeError) as error:
        problem = f"not a policy's description ({error!r})"
        raise BadBundle(str(folder / DESCRIPTION), problem) from None
    if activation != ACTIVATION:
        problem = f"activation is {activation!r}, this version knows '{ACTIVATION}'"
        raise BadBundle(str(folder / DESCRIPTION), problem)
    tree = unflatten_dict({k: jnp.asarray(v) for k, v in tensors.items()}, sep="/")
    if set(tree) != {"actor", "mean", "std"}:
        problem = f"holds {', '.join(sorted(tree))}, expected actor, mean, std"
        raise BadBundle(str(folder / ARRAYS), problem)
    policy = Policy(tree["actor"], tree["mean"], tree["std"])
    found = [policy.mean.shape[-1], *[bias.shape[-1] for _, bias in layers(policy)]]
    if found != sizes:
        problem = f"layers are {found}, {DESCRIPTION} says {sizes}"
        raise BadBundle(str(folder / ARRAYS), problem)
    return policy, terms
