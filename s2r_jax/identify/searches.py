"""Other ways down the same cost: Adam, CMA-ES, Bayesian optimisation, a surrogate network.

Each is a function of the cost, a start and a box in z, and returns the best z it saw. What follows
a search (noise, covariance, intervals) is the same for all, in `fit.py`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from s2r_jax.errors import MissingFile
from s2r_jax.identify.levenberg import Bounds
from s2r_jax.identify.objective import Costs, Slope


class Info(NamedTuple):
    """What a person or a log wants to see of one step."""

    cost: float
    """Best so far."""


Report = Callable[[int, Info], None]

#: Adam's step as a share of each coordinate's range: fifty steps cross it.
ADAM_RATE = 0.02
#: First standard deviation of CMA-ES, and the noise of new surrogate samples, shares of the range.
SPREAD = 0.25
#: Members of a generation, a multiple of what both cores do at once; fixed, so compiled once.
POPULATION = 32


def adam(
    slope: Slope, z: Float[np.ndarray, " param"], bounds: Bounds, steps: int, report: Report
) -> np.ndarray:
    """Descend by Adam, projected onto the box. Source: arXiv:1412.6980.

    The recipe of most differentiable simulators; slower than Levenberg-Marquardt on squared errors,
    but it needs one reverse pass a step, however many parameters there are.
    """
    low, high = finite(bounds)
    optimizer = optax.adam(ADAM_RATE)
    u = jnp.asarray((z - low) / (high - low))
    moments = optimizer.init(u)
    best, lowest = z, np.inf
    for step in range(1, steps + 1):
        here = low + (high - low) * np.asarray(u)
        value, gradient = slope(jnp.asarray(here))
        if float(value) < lowest:
            best, lowest = here, float(value)
        scaled = jnp.nan_to_num(gradient) * (high - low)
        update, moments = optimizer.update(scaled, moments)
        u = jnp.clip(jnp.asarray(optax.apply_updates(u, update)), 0.0, 1.0)
        report(step, Info(lowest))
    return best


def cmaes(
    costs: Costs,
    z: Float[np.ndarray, " param"],
    bounds: Bounds,
    steps: int,
    report: Report,
    seed: int,
) -> np.ndarray:
    """Evolve a population with the `cmaes` library. Source: Hansen, arXiv:1604.00772."""
    try:
        from cmaes import CMA
    except ImportError:
        raise MissingFile("cmaes", "package", 'pip install "s2r_jax[search]"') from None
    low, high = finite(bounds)
    unit = np.stack([np.zeros(z.size), np.ones(z.size)], axis=1)
    mean = np.clip((z - low) / (high - low), 0.02, 0.98)
    evolution = CMA(mean=mean, sigma=SPREAD, bounds=unit, seed=seed, population_size=POPULATION)
    best, lowest = z, np.inf
    for step in range(1, steps + 1):
        members = np.stack([evolution.ask() for _ in range(POPULATION)])
        values = np.asarray(costs(jnp.asarray(low + (high - low) * members)))
        # A diverging member ranks last.
        values = np.where(np.isfinite(values), values, np.finfo(float).max)
        evolution.tell(list(zip(members, values, strict=True)))
        if values.min() < lowest:
            best, lowest = low + (high - low) * members[values.argmin()], float(values.min())
        report(step, Info(lowest))
        if evolution.should_stop():
            break
    return best


def bayes(
    costs: Costs,
    z: Float[np.ndarray, " param"],
    bounds: Bounds,
    steps: int,
    report: Report,
    seed: int,
) -> np.ndarray:
    """Model ln cost by a Gaussian process with the `bayesian-optimization` library.

    For few parameters and dear simulations. Source: Snoek et al., arXiv:1206.2944.
    """
    try:
        from bayes_opt import BayesianOptimization
    except ImportError:
        raise MissingFile("bayes_opt", "package", 'pip install "s2r_jax[search]"') from None
    low, high = finite(bounds)
    names = [f"u{i:03d}" for i in range(z.size)]
    model = BayesianOptimization(
        None, dict.fromkeys(names, (0.0, 1.0)), random_state=seed, verbose=0,
        allow_duplicate_points=True,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    first = np.vstack([(z - low) / (high - low), rng.uniform(0, 1, (POPULATION - 1, z.size))])
    best, lowest = z, np.inf
    members = np.clip(first, 0.0, 1.0)
    for step in range(steps + 1):
        values = np.asarray(costs(jnp.asarray(low + (high - low) * members)))
        for member, value in zip(members, values, strict=True):
            if np.isfinite(value):
                model.register(dict(zip(names, member, strict=True)), -float(np.log(value + 1e-12)))
        if np.nanmin(values) < lowest:
            best = low + (high - low) * members[int(np.nanargmin(values))]
            lowest = float(np.nanmin(values))
        report(step, Info(lowest))
        point = model.suggest()
        u = np.array([float(np.asarray(point[name])) for name in names])
        # The rest of the batch samples around the proposal: it costs nothing on a wide engine.
        around = np.vstack([u, u + 0.03 * rng.standard_normal((POPULATION - 1, z.size))])
        members = np.clip(around, 0.0, 1.0)
    return best


def surrogate(
    costs: Costs,
    z: Float[np.ndarray, " param"],
    bounds: Bounds,
    steps: int,
    report: Report,
    seed: int,
) -> np.ndarray:
    """Fit a small network to ln cost, descend it, simulate there, fit again.

    Exact gradients of a smooth stand-in: for simulators whose own gradients are useless.
    """
    low, high = finite(bounds)
    rng = np.random.default_rng(seed)
    start = np.clip((z - low) / (high - low), 0.0, 1.0)
    xs = np.vstack([start, rng.uniform(0, 1, (4 * POPULATION - 1, z.size))])
    ys = _log_costs(costs, low, high, xs)
    for step in range(1, steps + 1):
        centre, width = xs[np.argmin(ys)], SPREAD * 0.8**step
        proposals = _descend_network(xs, ys, rng)
        near = centre + width * rng.standard_normal((POPULATION - len(proposals), z.size))
        new = np.clip(np.vstack([proposals, near]), 0.0, 1.0)
        xs, ys = np.vstack([xs, new]), np.concatenate([ys, _log_costs(costs, low, high, new)])
        report(step, Info(float(np.exp(ys.min()))))
    return low + (high - low) * xs[np.argmin(ys)]


def finite(bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
    """Return the box; where `logit` leaves z unbounded, the middle 99.8 % of the range."""
    edge = float(np.log(0.999 / 0.001))
    return (
        np.where(np.isfinite(bounds.low), bounds.low, -edge),
        np.where(np.isfinite(bounds.high), bounds.high, edge),
    )


def _log_costs(costs: Costs, low: np.ndarray, high: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """Return ln cost in batches of one shape; a diverging simulation counts as the worst seen."""
    values = np.concatenate([
        np.asarray(costs(jnp.asarray(low + (high - low) * part)))
        for part in np.split(xs, len(xs) // POPULATION)
    ])  # fmt: skip
    logs = np.log(np.where(values > 0, values, 1e-12))
    return np.where(np.isfinite(logs), logs, np.nanmax(logs[np.isfinite(logs)], initial=0.0) + 1)


#: Hidden units and training steps of the surrogate: a few hundred samples ask for no more.
HIDDEN, TRAIN_STEPS, DESCENTS = 64, 600, 8


def _descend_network(xs: np.ndarray, ys: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Fit the network to the better half of the samples, and return minima of it."""
    order = np.argsort(ys)[: max(2 * POPULATION, len(ys) // 2)]
    scale = ys[order].std() + 1e-12
    targets = jnp.asarray((ys[order] - ys[order].mean()) / scale)
    inputs = jnp.asarray(xs[order])
    weights = {
        "in": jnp.asarray(rng.standard_normal((xs.shape[1], HIDDEN)) * 2 / xs.shape[1] ** 0.5),
        "shift": jnp.asarray(rng.standard_normal(HIDDEN)),
        "out": jnp.zeros(HIDDEN),
        "level": jnp.zeros(()),
    }
    weights = _minimise(_misfit, weights, (inputs, targets), TRAIN_STEPS, 0.02)
    best = inputs[:DESCENTS] + 0.02 * jnp.asarray(rng.standard_normal((DESCENTS, xs.shape[1])))
    moved = _minimise(_height, best, (weights,), 100, 0.01)
    return np.asarray(moved)


def _network(weights: Any, x: Any) -> Any:
    return jnp.tanh(x @ weights["in"] + weights["shift"]) @ weights["out"] + weights["level"]


def _misfit(weights: Any, inputs: Any, targets: Any) -> Any:
    smooth = 1e-4 * (jnp.sum(weights["out"] ** 2) + jnp.sum(weights["in"] ** 2))
    return jnp.mean((_network(weights, inputs) - targets) ** 2) + smooth


def _height(points: Any, weights: Any) -> Any:
    return jnp.sum(jax.vmap(lambda x: _network(weights, jnp.clip(x, 0.0, 1.0)))(points))


def _minimise(loss: Callable[..., Any], start: Any, given: Any, steps: int, rate: float) -> Any:
    optimizer = optax.adam(rate)

    def advance(carry: Any, _: None) -> tuple[Any, None]:
        value, moments = carry
        update, moments = optimizer.update(jax.grad(loss)(value, *given), moments)
        return (optax.apply_updates(value, update), moments), None

    scan = jax.jit(lambda s: jax.lax.scan(advance, (s, optimizer.init(s)), length=steps)[0][0])
    return scan(start)
