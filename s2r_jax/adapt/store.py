"""An adapted policy as a safetensors file: encoder, policy head and the settings they need."""

import dataclasses
import json
from pathlib import Path

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from s2r_jax import files
from s2r_jax.adapt.config import AdaptConfig
from s2r_jax.adapt.objective import Model
from s2r_jax.adapt.run import Policy
from s2r_jax.errors import BadBundle, MissingFile


def save(policy: Policy, config: AdaptConfig, path: Path) -> None:
    """Write the policy, whole or not at all.

    Tensors are `encoder/...`, `policy/...`, `offset` and `scale`; the metadata hold the config.
    """
    tree = {"encoder": policy.model.encoder, "policy": policy.model.policy}
    tensors = {name: np.asarray(x) for name, x in flatten_dict(tree, sep="/").items()}
    tensors |= {"offset": policy.offset, "scale": policy.scale}
    with files.whole(path) as beside:
        save_file(tensors, beside, metadata={"config": json.dumps(dataclasses.asdict(config))})


def load(path: Path) -> tuple[Policy, AdaptConfig]:
    """Return what `save` wrote, bit for bit."""
    if not path.is_file():
        raise MissingFile(path, "adapted policy", "s2r adapt writes one")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise BadBundle(str(path), f"not a safetensors file ({error})") from None
    missing = [k for k in ("offset", "scale") if k not in tensors]
    if "config" not in metadata or missing:
        raise BadBundle(str(path), "was not written by s2r adapt (no config, offset or scale)")
    fields = json.loads(metadata["config"])
    fields |= {name: tuple(fields[name]) for name in ("image_shape", "channels")}
    offset, scale = tensors.pop("offset"), tensors.pop("scale")
    tree = unflatten_dict(tensors, sep="/")
    return Policy(Model(tree["encoder"], tree["policy"]), offset, scale), AdaptConfig(**fields)
