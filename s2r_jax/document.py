"""Read mappings and numbers of a YAML document strictly, with messages that name the place."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from s2r_jax.errors import BadValue, MissingKey, UnknownName


def mapping(value: Any, place: str, keys: tuple[str, ...] | None = None) -> Mapping[str, Any]:
    """Return a YAML mapping after checking its type and keys."""
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise BadValue(place, "content", value, "a mapping")
    for key in value:
        if keys is not None and key not in keys:
            raise UnknownName(place, key, keys, "key")
    return value


def number(
    source: Mapping[str, Any],
    key: str,
    place: str,
    default: float | None = None,
    minimum: float = -np.inf,
) -> float:
    """Return a finite number of a mapping, or the default where the key is absent."""
    if key not in source:
        if default is None:
            raise MissingKey(place, key, source)
        return default
    value = source[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise BadValue(place, key, value, "a finite number")
    if value < minimum:
        raise BadValue(place, key, value, f"a number >= {minimum:g}")
    return float(value)
