"""Two pictures of a sweep: how returns are spread, and where in θ the failures lie."""

from typing import TYPE_CHECKING, Any

import numpy as np

from s2r_jax.parameters import ParameterSet
from s2r_jax.validate import statistics
from s2r_jax.validate.config import ValidateConfig
from s2r_jax.validate.influence import influences
from s2r_jax.validate.sweep import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Legends stand where they hide no data.
BELOW: dict[str, Any] = {
    "frameon": False,
    "loc": "upper center",
    "bbox_to_anchor": (0.5, -0.15),
    "ncols": 2,
}
SUCCESS, FAILURE, NEUTRAL = "#2a7f9e", "#c8442b", "#5b6770"


def figure(sweep: Sweep, parameters: ParameterSet, config: ValidateConfig) -> "Figure":
    """Return the histogram of returns, worst tail marked, beside success over two parameters.

    The two are those that go most with failure, or with the return where all succeed.
    """
    from matplotlib.figure import Figure

    picture = Figure(figsize=(10, 4.6), layout="constrained")
    left, right = picture.subplots(1, 2)
    _returns(left, sweep, config)
    _map(right, sweep, parameters)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return picture


def _returns(axes: Any, sweep: Sweep, config: ValidateConfig) -> None:
    returns = np.asarray(sweep.reward, dtype=float)[sweep.is_finite]
    axes.set(xlabel="return of an episode", ylabel="worlds")
    lost = int((~sweep.is_finite).sum())
    note = f", {lost} not finite" if lost else ""
    axes.set_title(f"Returns in {len(sweep.reward)} worlds{note}", loc="left")
    if not returns.size:
        return
    edges = np.histogram_bin_edges(returns, bins=min(40, max(10, int(returns.size**0.5))))
    limit = np.quantile(returns, config.tail)
    worst, average = statistics.worst_mean(returns, config.tail), returns.mean()
    axes.hist(returns, edges, color=SUCCESS, label="all")
    axes.hist(returns[returns <= limit], edges, color=FAILURE, label=f"worst {config.tail:.0%}")
    axes.axvline(average, color=NEUTRAL, label=f"mean {average:.3g}")
    label = f"mean of the worst {config.tail:.0%} {worst:.3g}"
    axes.axvline(worst, color=FAILURE, linestyle="--", label=label)
    axes.legend(**BELOW)


def _map(axes: Any, sweep: Sweep, parameters: ParameterSet) -> None:
    success, theta = sweep.success, np.asarray(sweep.theta, dtype=float)
    found = influences(parameters.names, theta, ~success)
    finite = sweep.is_finite
    found = found or influences(parameters.names, theta[finite], sweep.reward[finite])
    rate = f"{int(success.sum())} of {len(success)} succeed"
    if not found:
        axes.set_title(f"{rate}; no parameter varies", loc="left")
        axes.set_axis_off()
        return
    # Where a single parameter varies it stands on both axes.
    first, second = (parameters.index(found[k].name) for k in (0, min(1, len(found) - 1)))
    for chosen, color, marker, label in (
        (success, SUCCESS, "o", "success"),
        (~success, FAILURE, "X", "failure"),
    ):
        style = {"color": color, "marker": marker, "s": 22, "linewidths": 0, "alpha": 0.75}
        axes.scatter(theta[chosen, first], theta[chosen, second], label=label, **style)
    labels = [f"{parameters.names[i]} [{parameters.units[i] or '1'}]" for i in (first, second)]
    axes.set(xlabel=labels[0], ylabel=labels[1])
    axes.set_title(rate, loc="left")
    axes.legend(**BELOW)
