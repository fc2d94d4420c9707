"""A training run on disk: every array of `ppo.State` in one safetensors file, without pickle."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from s2r_jax import files
from s2r_jax.errors import BadBundle, MissingFile
from s2r_jax.randomize import distribution as distributions
from s2r_jax.train import ppo
from s2r_jax.train.config import PPOConfig
from s2r_jax.train.environment import Environment


def save_state(state: ppo.State, path: Path) -> None:
    """Write a state, whole or not at all."""
    tensors = {name: np.array(_plain(leaf), order="C") for name, leaf in _named(state)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.whole(path) as beside:
        save_file(tensors, beside)


def load_state(path: Path, environment: Environment, config: PPOConfig) -> ppo.State:
    """Return what `save_state` wrote, bit for bit; training goes on as if it had not stopped.

    Raises:
        MissingFile: No such file.
        BadBundle: The file is damaged, or of another robot, task or network.
    """
    if not path.is_file():
        raise MissingFile(path, "training state", "s2r train writes one")
    try:
        tensors = load_file(path)
    except SafetensorError as error:
        raise BadBundle(str(path), f"not a safetensors file ({error})") from None
    drawn = distributions.from_bounds(environment.simulator.parameters)
    like = jax.eval_shape(lambda key: ppo.init(key, drawn, environment, config), jax.random.key(0))
    names = [name for name, _ in _named(like)]
    if set(names) != set(tensors):
        odd = sorted(set(names) ^ set(tensors))
        problem = f"is not of this robot, task and networks: {', '.join(odd[:3])} do not match"
        raise BadBundle(str(path), problem)
    leaves = [_restored(tensors[name], leaf, name, path) for name, leaf in _named(like)]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _named(tree: Any) -> list[tuple[str, Any]]:
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree.leaves_with_path(tree)]


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _restored(value: np.ndarray, like: Any, name: str, path: Path) -> Any:
    array = jnp.asarray(value)
    found = jax.random.wrap_key_data(array) if _is_key(like) else array
    if found.shape != like.shape or found.dtype != like.dtype:
        problem = (
            f"{name} is {found.dtype}{list(found.shape)}, expected {like.dtype}{list(like.shape)}"
        )
        raise BadBundle(str(path), problem)
    return found
