"""A distribution as randomization.yaml: for people to read, change and keep under version control.

    parameters:
    - {name: geom/floor/friction, kind: uniform, low: 0.3, high: 1.2, reason: ...}
    - {name: body/arm/mass, kind: lognormal, low: 0.1, high: 1.0, mean: 0.4, std: 0.05, reason: ...}
    - {name: latency/action, kind: fixed, value: 0.005, reason: ...}
    correlation:   # only where parameters vary together
      names: [...]
      rows:
      - [1.0, -0.8]
      - [-0.8, 1.0]

Numbers are written in the fewest digits that read back as the same float; correlations with six
decimals, which is what float32 carries.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import yaml

from s2r_jax import files
from s2r_jax.document import parse
from s2r_jax.errors import BadValue, MissingFile, MissingKey, UnknownName
from s2r_jax.parameters import ParameterSet
from s2r_jax.randomize.distribution import KINDS, Distribution, Kind, Marginal, build, from_bounds
from s2r_jax.robot import mapping, number

FILE = "randomization.yaml"
NORMAL_KEYS = ("low", "high", "mean", "std")
KEYS = {
    "fixed": ("value",),
    "uniform": ("low", "high"),
    "loguniform": ("low", "high"),
    "normal": NORMAL_KEYS,
    "lognormal": NORMAL_KEYS,
}


def save(
    path: Path, distribution: Distribution, parameters: ParameterSet, reasons: Sequence[str] = ()
) -> None:
    """Write the file, whole or not at all."""
    with files.whole(path) as beside:
        beside.write_text(to_yaml(distribution, parameters, reasons), encoding="utf-8")


def load(path: Path, parameters: ParameterSet) -> Distribution:
    """Return what a randomization.yaml says.

    Raises:
        MissingFile: No such file.
        UnknownName: A key, kind or parameter that does not exist.
        MissingKey: A key that the kind needs, or a parameter that is not listed.
        BadValue: Not YAML, or a value outside its range.
    """
    if not path.is_file():
        raise MissingFile(path, "randomization", "s2r randomize writes one")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadValue(str(path), "file", str(error), "UTF-8 text") from None
    return from_yaml(text, parameters, str(path))


def to_yaml(
    distribution: Distribution, parameters: ParameterSet, reasons: Sequence[str] = ()
) -> str:
    """Return the text of the file; `reasons` says of each parameter where its marginal is from."""
    lines, limits = ["parameters:"], from_bounds(parameters)
    for index, name in enumerate(parameters.names):
        # A bound that was rounded to float32 is written as it was declared; it reads back the same.
        bounds = {
            float(limits.low[index]): parameters.low[index],
            float(limits.high[index]): parameters.high[index],
        }
        kind = KINDS[int(distribution.kind[index])]
        entry: dict[str, Any] = {"name": name, "kind": kind}
        for key in KEYS[kind]:
            values = getattr(distribution, "mean" if key == "value" else key)
            value = np.asarray(values)[index]
            is_bound = key != "std" and float(value) in bounds
            entry[key] = bounds[float(value)] if is_bound else float(str(value))
        if reasons:
            entry["reason"] = reasons[index]
        lines.append(f"- {_flow(entry)}")
    factor = np.asarray(distribution.cholesky, dtype=float)
    correlation = np.round(factor @ factor.T, 6)
    tied = np.flatnonzero((np.abs(correlation - np.eye(len(parameters))) > 1e-5).any(axis=1))
    if tied.size:
        names = [parameters.names[index] for index in tied]
        lines += ["correlation:", f"  names: {_flow(names)}", "  rows:"]
        rows = np.where(np.eye(tied.size, dtype=bool), 1.0, correlation[np.ix_(tied, tied)])
        lines += [f"  - {_flow((row + 0.0).tolist())}" for row in rows]  # + 0.0: no "-0.0"
    return "\n".join(lines) + "\n"


def from_yaml(text: str, parameters: ParameterSet, place: str = FILE) -> Distribution:
    """Return the distribution of the text of a file; `place` names it in messages.

    Raises: as `load`.
    """
    document = mapping(parse(text, place), place, ("parameters", "correlation"))
    if "parameters" not in document:
        raise MissingKey(place, "parameters", document)
    entries = document["parameters"]
    if not isinstance(entries, list):
        raise BadValue(place, "parameters", entries, "a list")
    marginals: dict[str, Marginal] = {}
    for entry in entries:
        name, marginal = _marginal(entry, parameters, f"{place}: parameters")
        if name in marginals:
            raise BadValue(f"{place}: parameters", "name", name, "each parameter once")
        marginals[name] = marginal
    for name in parameters.names:
        if name not in marginals:
            raise MissingKey(f"{place}: parameters", name, marginals)
    ordered = [marginals[name] for name in parameters.names]
    correlation = _correlation(document.get("correlation"), parameters, f"{place}: correlation")
    return build(parameters, ordered, correlation, place)


def _marginal(entry: Any, parameters: ParameterSet, place: str) -> tuple[str, Marginal]:
    for key in ("name", "kind"):
        if key not in mapping(entry, place):
            raise MissingKey(place, key, entry)
    name, kind = entry["name"], entry["kind"]
    if name not in parameters.names:
        raise UnknownName(place, name, parameters.names, "parameter")
    here = f"{place}: {name}"
    if kind not in KINDS:
        raise UnknownName(here, kind, KINDS, "kind")
    mapping(entry, here, ("name", "kind", "reason", *KEYS[kind]))
    values = [number(entry, key, here) for key in KEYS[kind]]
    if kind == "fixed":
        values *= 2
    return name, Marginal(cast(Kind, kind), *values)


def _correlation(content: Any, parameters: ParameterSet, place: str) -> np.ndarray:
    matrix = np.eye(len(parameters))
    if content is None:
        return matrix
    entry: Mapping[str, Any] = mapping(content, place, ("names", "rows"))
    for key in ("names", "rows"):
        if key not in entry:
            raise MissingKey(place, key, entry)
    names, rows = entry["names"], entry["rows"]
    if not isinstance(names, list) or len(set(map(str, names))) != len(names):
        raise BadValue(place, "names", names, "a list that names each parameter once")
    for name in names:
        if name not in parameters.names:
            raise UnknownName(place, name, parameters.names, "parameter")
    size = len(names)
    try:
        values = np.array(rows, dtype=float)
    except (ValueError, TypeError):
        values = np.empty(0)
    if values.shape != (size, size) or not (np.abs(values) <= 1).all():
        raise BadValue(place, "rows", rows, f"{size} lists of {size} numbers in [-1, 1]")
    index = [parameters.index(name) for name in names]
    matrix[np.ix_(index, index)] = values
    return matrix


def _flow(value: Any) -> str:
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=np.inf, allow_unicode=True
    )
    return text.strip()
