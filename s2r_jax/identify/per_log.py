"""Unknowns of which each log has its own: zeros of encoders set at power-on, offsets of clocks.

The search moves one vector in which an entry of θ that is `per_log` stands once for every log; θ of
a log is read from it. What is reported of such an entry is its distribution over the logs, because
the next log has yet another value.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from s2r_jax.parameters import ParameterSet, constrain, constrain_slope
from s2r_jax.types import Posterior


class Layout(NamedTuple):
    """Where the entries of each log's θ stand among the unknowns of a search."""

    parameters: ParameterSet
    """Of the unknowns. Where some are per log, without effects."""
    place: Int[np.ndarray, "log param"]

    @property
    def is_shared(self) -> bool:
        """Whether all logs have all of θ in common."""
        return not any(self.parameters.per_log)

    @property
    def own(self) -> Bool[np.ndarray, " unknown"]:
        """Which unknowns belong to one log alone."""
        return np.array(self.parameters.per_log or [False] * len(self.parameters), bool)

    def unknowns(self, theta: Float[np.ndarray, " param"]) -> Float[np.ndarray, " unknown"]:
        """Return the unknowns that give every log this θ."""
        found = np.zeros(len(self.parameters))
        found[self.place] = theta
        return found

    def spread(
        self,
        slope: Float[np.ndarray, "segment time sensor param"],
        log: Int[np.ndarray, " segment"],
    ) -> Float[np.ndarray, "segment time sensor unknown"]:
        """Return the derivative by the unknowns of windows that know their own log's θ.

        Args:
            slope: By the θ of each window's log.
            log: Of each window.
        """
        if self.is_shared:
            return slope
        found = np.zeros((*slope.shape[:-1], len(self.parameters)))
        for index, place in enumerate(self.place):
            mine = log == index
            whole = np.zeros((*slope[mine].shape[:-1], len(self.parameters)))
            whole[..., place] = slope[mine]
            found[mine] = whole
        return found


class Own(NamedTuple):
    """What each log has of its own."""

    names: tuple[str, ...]
    value: Float[np.ndarray, "log own"]
    std: Float[np.ndarray, "log own"]
    """Standard error."""


def layout(parameters: ParameterSet, logs: int) -> Layout:
    """Return the unknowns of a search in so many logs."""
    if not any(parameters.per_log):
        return Layout(parameters, np.tile(np.arange(len(parameters)), (logs, 1)))
    place = np.zeros((logs, len(parameters)), int)
    columns: list[int] = []
    names: list[str] = []
    for i, (name, is_own) in enumerate(zip(parameters.names, parameters.per_log, strict=True)):
        copies = logs if is_own else 1
        place[:, i] = len(columns) + (np.arange(logs) if is_own else 0)
        columns += copies * [i]
        names += [f"{name} of log {k + 1}" if is_own else name for k in range(copies)]
    fields = ("low", "high", "nominal", "start", "prior_std", "transforms", "units", "per_log")
    packed = {key: tuple(getattr(parameters, key)[i] for i in columns) for key in fields}
    return Layout(ParameterSet(names=tuple(names), **packed), place)


def folded(
    parameters: ParameterSet, found: Posterior, layout: Layout
) -> tuple[Posterior, Own | None]:
    """Return what is known of θ, and the values of each log; None where all logs share θ.

    An entry that is per log gets the mean and the standard deviation of the next log's value.
    """
    if layout.is_shared:
        return found, None
    own = np.flatnonzero(parameters.per_log)
    first, place = layout.place[0], layout.place[:, own]
    mean, covariance = found.mean[first].copy(), found.covariance[np.ix_(first, first)].copy()
    among = found.mean[place]
    between = among.var(0, ddof=1) if len(place) > 1 else np.zeros(own.size)
    mean[own] = among.mean(0)
    covariance[own] = covariance[:, own] = 0.0
    covariance[own, own] = between + np.diag(found.covariance)[place].mean(0)
    std = found.std[first].copy()
    std[own] = constrain_slope(parameters, mean)[own] * np.sqrt(covariance[own, own])
    std[own] = np.where(np.isfinite(found.std[place]).any(0), std[own], np.inf)
    identifiable, at_bound = found.identifiable[first].copy(), found.at_bound[first].copy()
    identifiable[own] = found.identifiable[place].mean(0) > 0.5  # most logs tell theirs
    at_bound[own] = found.at_bound[place].any(0)
    value = found.value[first].copy()
    value[own] = np.asarray(constrain(parameters, jnp.asarray(mean)))[own]
    names = tuple(parameters.names[i] for i in own)
    return (
        Posterior(parameters.names, value, std, mean, covariance, identifiable, at_bound),
        Own(names, found.value[place], found.std[place]),
    )


def theta_of_windows(
    posterior: Posterior, own: Own | None, log: Int[np.ndarray, " segment"]
) -> Float[np.ndarray, "*segment param"]:
    """Return θ, or where logs have their own values the θ of each window."""
    if own is None:
        return posterior.value
    theta = np.tile(posterior.value, (len(log), 1))
    theta[:, [posterior.names.index(name) for name in own.names]] = own.value[log]
    return theta
