"""A distribution over θ as a pytree of arrays: other ranges never recompile anything.

Each parameter has its own marginal; a Gaussian copula ties them, so that what identification found
to vary together keeps varying together. A draw is e = L n with n standard normal and L Lᵀ the
correlation matrix, u = Φ(e), θ = F⁻¹(u). Truncation happens inside F⁻¹: nothing is clipped, no
probability piles up at a bound, and a normal marginal that its bounds do not cut is exactly
mean + std e.

Source: Nelsen, An Introduction to Copulas, 2006, sections 2.9 and 4.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jax.scipy.stats import norm
from jaxtyping import Array, Float, Int, Key

from s2r_jax.errors import BadValue, UnknownName
from s2r_jax.parameters import ParameterSet

Kind = Literal["fixed", "uniform", "loguniform", "normal", "lognormal"]
KINDS = ("fixed", "uniform", "loguniform", "normal", "lognormal")
FIXED, UNIFORM, LOGUNIFORM, NORMAL, LOGNORMAL = range(len(KINDS))


class Distribution(NamedTuple):
    """Marginals and correlation of θ; low, high and mean in each parameter's own unit."""

    kind: Int[Array, " param"]
    """Index into `KINDS`."""
    low: Float[Array, " param"]
    high: Float[Array, " param"]
    """No draw leaves [low, high]; equal for `fixed`."""
    mean: Float[Array, " param"]
    """Centre of `normal` and median of `lognormal`, both before truncation; of the others the value
    or the middle of the range."""
    std: Float[Array, " param"]
    """Of `normal` in the parameter's unit, of `lognormal` that of ln θ; before truncation."""
    cholesky: Float[Array, "param param"]
    """Lower factor of the copula's correlation matrix; the identity for independent parameters."""


class Marginal(NamedTuple):
    """One parameter's marginal as people write it; `build` checks it."""

    kind: Kind
    low: float
    high: float
    mean: float | None = None
    """Only for `normal` and `lognormal`."""
    std: float = 0.0
    """Only for `normal` and `lognormal`."""


def sample(key: Key[Array, ""], distribution: Distribution) -> Float[Array, " param"]:
    """Return one θ, always inside [low, high]."""
    kind, low, high, mean, std, cholesky = distribution
    white = jax.random.normal(key, mean.shape, mean.dtype)
    normal = jnp.matmul(cholesky, white, precision="highest")
    u = ndtr(normal)
    is_log = _is_log(kind)
    a, b, centre = (_to_search(x, is_log) for x in (low, high, mean))
    is_normal = (kind == NORMAL) | (kind == LOGNORMAL)
    width = jnp.where(is_normal, std, 1.0)
    below, above = ndtr((a - centre) / width), ndtr((b - centre) / width)
    bell = centre + width * ndtri(below + u * (above - below))
    value = jnp.where(is_normal, bell, a + u * (b - a))
    theta = jnp.where(kind == FIXED, mean, jnp.where(is_log, jnp.exp(value), value))
    # Rounding only: the inverse distribution functions end at the bounds.
    return jnp.clip(theta, low, high)


def log_density(theta: Float[Array, " param"], distribution: Distribution) -> Float[Array, ""]:
    """Return the log density of the parameters that are not fixed; -inf outside the bounds."""
    kind, low, high, mean, std, cholesky = distribution
    is_log, is_fixed = _is_log(kind), kind == FIXED
    x, a, b, centre = (_to_search(v, is_log) for v in (theta, low, high, mean))
    is_normal = (kind == NORMAL) | (kind == LOGNORMAL)
    width = jnp.where(is_normal, std, 1.0)
    span = jnp.where(is_fixed, 1.0, b - a)
    below, above = ndtr((a - centre) / width), ndtr((b - centre) / width)
    mass = jnp.where(is_normal, above - below, 1.0)
    bell = norm.logpdf((x - centre) / width) - jnp.log(width) - jnp.log(mass)
    marginal = jnp.where(is_normal, bell, -jnp.log(span)) - jnp.where(is_log, x, 0.0)
    u = jnp.where(is_normal, (ndtr((x - centre) / width) - below) / mass, (x - a) / span)
    tiny = jnp.finfo(u.dtype).eps
    normal = ndtri(jnp.clip(jnp.where(is_fixed, 0.5, u), tiny, 1 - tiny))
    white = jax.scipy.linalg.solve_triangular(cholesky, normal, lower=True)
    copula = 0.5 * (normal @ normal - white @ white) - jnp.sum(jnp.log(jnp.diagonal(cholesky)))
    inside = jnp.all((theta >= low) & (theta <= high))
    return jnp.where(inside, copula + jnp.sum(jnp.where(is_fixed, 0.0, marginal)), -jnp.inf)


def nominal(
    parameters: ParameterSet, theta: Float[np.ndarray, " param"] | None = None
) -> Distribution:
    """Return the distribution that always gives θ, by default the nominal one."""
    theta = parameters.vector({}) if theta is None else theta
    return build(parameters, [Marginal("fixed", value, value) for value in theta.tolist()])


def from_bounds(parameters: ParameterSet) -> Distribution:
    """Return the uniform distribution between the bounds, log-uniform for `log` transforms."""
    return build(parameters, [over_bounds(parameters, i) for i in range(len(parameters))])


def over_bounds(parameters: ParameterSet, index: int) -> Marginal:
    """Return the marginal that knows nothing but the bounds of one parameter."""
    low, high = parameters.low[index], parameters.high[index]
    if parameters.transforms[index] == "log":
        return Marginal("loguniform", low, high)
    return Marginal("uniform", low, high)


def build(
    parameters: ParameterSet,
    marginals: Sequence[Marginal],
    correlation: Float[np.ndarray, "param param"] | None = None,
    place: str = "distribution",
) -> Distribution:
    """Return the distribution of checked marginals.

    Args:
        parameters: Names and bounds that no draw may leave.
        marginals: One a parameter, in the order of θ.
        correlation: Of the copula, which is that of normal and lognormal marginals in their search
            coordinates; independent when absent. Fixed parameters lose theirs.
        place: Where the values come from, for messages.

    Raises:
        UnknownName: A kind that does not exist.
        BadValue: Ranges outside the bounds, a non-positive width, no correlation matrix.
    """
    if len(marginals) != len(parameters):
        expected = f"one a parameter, {len(parameters)}"
        raise BadValue(place, "number of marginals", len(marginals), expected)
    for index, marginal in enumerate(marginals):
        _check(parameters, index, marginal, place)
    fixed = np.array([m.kind == "fixed" for m in marginals], dtype=bool)
    factor = _factor(np.eye(len(marginals)) if correlation is None else correlation, fixed, place)
    dtype = jnp.zeros(()).dtype
    # Rounding to float32 must not move a value outside the parameter's bounds.
    inner_low, inner_high = _inside(parameters.low, dtype, up=True), _inside(parameters.high, dtype)
    low, high = (
        np.clip(np.array([m[i] for m in marginals], dtype), inner_low, inner_high) for i in (1, 2)
    )
    ranges = zip(marginals, low.tolist(), high.tolist(), strict=True)
    means = [_middle(*marginal_and_range) for marginal_and_range in ranges]
    mean = np.clip(np.array(means, dtype), low, high)
    std = np.array([m.std for m in marginals], dtype)
    kind = np.array([KINDS.index(m.kind) for m in marginals], dtype=np.int32)
    return Distribution(*map(jnp.asarray, (kind, low, high, mean, std, factor.astype(dtype))))


def _check(parameters: ParameterSet, index: int, marginal: Marginal, place: str) -> None:
    name, (kind, low, high, mean, std) = parameters.names[index], marginal
    if kind not in KINDS:
        raise UnknownName(f"{place}: {name}", kind, KINDS, "kind")
    outer_low, outer_high = parameters.low[index], parameters.high[index]
    bounds = f"inside the parameter's bounds [{outer_low:g}, {outer_high:g}]"
    if not outer_low <= low <= high <= outer_high:
        raise BadValue(place, f"range of {name}", [low, high], f"low <= high, {bounds}")
    if (kind == "fixed") != (low == high):
        expected = f"low {'=' if kind == 'fixed' else '<'} high for kind '{kind}'"
        raise BadValue(place, f"range of {name}", [low, high], expected)
    if kind in ("loguniform", "lognormal") and not low > 0:
        raise BadValue(place, f"low of {name}", low, f"a positive number for kind '{kind}'")
    is_normal = kind in ("normal", "lognormal")
    if is_normal and not (mean is not None and low <= mean <= high):
        raise BadValue(place, f"mean of {name}", mean, f"a number in [{low:g}, {high:g}]")
    if is_normal and not 0 < std < np.inf:
        raise BadValue(place, f"std of {name}", std, "a positive number")
    if not is_normal and (mean is not None or std != 0.0):
        raise BadValue(place, f"kind of {name}", kind, "normal or lognormal to have mean and std")


def _middle(marginal: Marginal, low: float, high: float) -> float:
    if marginal.mean is not None:
        return marginal.mean
    if marginal.kind == "loguniform":
        return math.sqrt(low * high)
    return (low + high) / 2


def _factor(correlation: np.ndarray, fixed: np.ndarray, place: str) -> np.ndarray:
    """Return the Cholesky factor of the correlation among the parameters that are not fixed."""
    size = len(fixed)
    if correlation.shape != (size, size):
        raise BadValue(place, "shape of correlation", correlation.shape, f"({size}, {size})")
    matrix = np.where(fixed[:, None] | fixed, np.eye(size), correlation)
    is_valid = np.allclose(matrix, matrix.T) and np.allclose(np.diagonal(matrix), 1.0)
    smallest = float(np.linalg.eigvalsh(matrix).min(initial=1.0)) if is_valid else -1.0
    if smallest < -MIN_EIGENVALUE:
        expected = "symmetric, ones on the diagonal, no negative eigenvalue"
        raise BadValue(place, "correlation", correlation.tolist(), expected)
    if smallest < MIN_EIGENVALUE / 2:  # half: a repaired matrix written with six decimals stays
        weight = (MIN_EIGENVALUE - smallest) / (1 - smallest)
        matrix = (1 - weight) * matrix + weight * np.eye(size)
    return np.linalg.cholesky(matrix)


#: A perfect correlation has no density and no float32 factor. A smaller eigenvalue is raised to
#: this by shrinking towards independence, which moves a draw by about 1 % of a standard deviation.
MIN_EIGENVALUE = 1e-4


def _inside(bounds: Sequence[float], dtype: np.dtype, *, up: bool = False) -> np.ndarray:
    """Return the bounds in JAX's float type, rounded towards the inside of the range."""
    exact = np.array(bounds, dtype=float)
    rounded = exact.astype(dtype)
    is_outside = rounded < exact if up else rounded > exact
    return np.where(
        is_outside, np.nextafter(rounded, dtype.type(np.inf if up else -np.inf)), rounded
    )


def _is_log(kind: Int[Array, " param"]) -> Array:
    return (kind == LOGUNIFORM) | (kind == LOGNORMAL)


def _to_search(x: Float[Array, " param"], is_log: Array) -> Float[Array, " param"]:
    return jnp.where(is_log, jnp.log(jnp.where(is_log, x, 1.0)), x)
