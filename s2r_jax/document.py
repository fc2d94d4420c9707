"""Read mappings and numbers of a YAML document strictly, with messages that name the place."""

import fnmatch
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import yaml
from yaml.constructor import ConstructorError

from s2r_jax.errors import BadValue, MissingKey, UnknownName


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as PyYAML reads it, but for two traps.

    A key that stands twice is an error, where the last one would win; and `2e-2` is a number, as in
    YAML 1.2 and everywhere else, where only `2.0e-2` would be one.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for position, key in enumerate(keys):
            if key in keys[:position]:
                mark = node.value[position][0].start_mark
                raise ConstructorError(
                    None, None, f"the key {key!r} stands twice in one mapping", mark
                )
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+|\d+\.\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def parse(text: str, place: str) -> Any:
    """Return the content of a YAML document.

    Raises:
        BadValue: Not YAML, or a key that stands twice.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadValue(place, "file", " ".join(str(error).split()), "valid YAML") from None


def matching(glob: str, names: Iterable[str]) -> list[str]:
    """Return the names that a glob matches; of a name that exists, itself alone.

    Brackets may be part of a name, as in `leg[0]`.
    """
    names = list(names)
    return [glob] if glob in names else [n for n in names if fnmatch.fnmatchcase(n, glob)]


def text(source: Mapping[str, Any], key: str, place: str) -> str:
    """Return a text of a mapping that is not empty."""
    value = source[key]
    if not isinstance(value, str) or not value.strip():
        raise BadValue(place, key, value, "a text; put a number or date in quotes")
    return value


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
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_finite(value):
        raise BadValue(place, key, value, "a finite number")
    if value < minimum:
        raise BadValue(place, key, value, f"a number >= {minimum:g}")
    return float(value)


def is_finite(value: int | float) -> bool:
    """Whether a number is finite as a float: a whole number of 400 digits is not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
