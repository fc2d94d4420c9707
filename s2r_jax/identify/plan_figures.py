"""Pictures of a plan; matplotlib is imported where something is drawn."""

from typing import Any

import numpy as np

from s2r_jax.identify.plan import Plan
from s2r_jax.robot import Robot

#: More panels than this hide what they show.
MOST_PANELS = 12
PLAN, COMMAND, LIMIT = "#0065bd", "#c98500", "#b00020"
OTHERS = ("#888888", "#c98500")


def motion(robot: Robot, plan: Plan) -> Any:
    """Draw commands, and the expected motion within its limits, a row an excited actuator."""
    from matplotlib import pyplot

    moved = np.flatnonzero(plan.band.high > plan.band.low)[:MOST_PANELS]
    best, limits = plan.best, plan.limits
    time = np.arange(len(best.targets)) * robot.period
    figure, axes = pyplot.subplots(
        len(moved), 3, figsize=(12, 1.2 + 1.7 * len(moved)), squeeze=False, sharex=True
    )
    for row, i in zip(axes, moved, strict=True):
        joint = robot.joints[i]
        row[0].step(time, best.targets[:, i], where="post", color=COMMAND, lw=1.0)
        for edge in (plan.band.low[i], plan.band.high[i]):
            row[0].axhline(edge, color=LIMIT, lw=0.7, ls="--")
        row[0].set_ylabel(joint.name, fontsize=8)
        if joint.name in limits.joints:
            at = limits.joints.index(joint.name)
            qpos = best.motion.qpos[0][:, robot.motors.qposes[i]]
            qvel = best.motion.qvel[0][:, robot.motors.dofs[i]]
            ends = (limits.low[at], limits.high[at])
            reached = (best.extremes.low[at], best.extremes.high[at])
            _panel(row[1], time, qpos, ends, reached)
            fastest = best.extremes.speed[at]
            _panel(row[2], time, qvel, (-limits.speed[at], limits.speed[at]), (-fastest, fastest))
        else:
            row[1].set_axis_off()
            row[2].set_axis_off()
    for axis, title in zip(axes[0], ("command", "position", "speed"), strict=True):
        axis.set_title(title, fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel("time [s]", fontsize=8)
    for axis in axes.flat:
        axis.tick_params(labelsize=7)
    figure.tight_layout()
    return figure


def _panel(axis: Any, time: np.ndarray, values: np.ndarray, limit: Any, reached: Any) -> None:
    """Draw the expected course, the span over all checked θ, and the limits that are near it."""
    axis.axhspan(*reached, color=PLAN, alpha=0.12, lw=0)
    axis.plot(time, values, color=PLAN, lw=1.0)
    for edge in limit:
        if np.isfinite(edge):
            axis.axhline(edge, color=LIMIT, lw=1.0)


def errors(robot: Robot, plan: Plan) -> Any:
    """Draw the predicted standard errors, as shares of each parameter's range, beside others'."""
    from matplotlib import pyplot, ticker

    parameters = robot.parameters
    span = np.array(parameters.high) - np.array(parameters.low)
    options = {"this plan": plan.best, **plan.baselines}
    colours = dict(zip(options, (PLAN, *OTHERS), strict=False))
    options = {name: option for name, option in options.items() if option is not None}
    count, width = len(parameters), 0.8 / len(options)
    figure, axis = pyplot.subplots(figsize=(9, 1.2 + 0.32 * count + 0.2))
    shares = []
    for k, (name, option) in enumerate(options.items()):
        share = np.where(np.isfinite(option.prediction.posterior.std),
                         option.prediction.posterior.std, span) / span  # fmt: skip
        shares.append(share)
        axis.barh(np.arange(count) + k * width, share, width, color=colours[name], label=name)
    axis.set_yticks(np.arange(count) + 0.4 - width / 2, parameters.names, fontsize=8)
    axis.invert_yaxis()
    axis.set_xscale("log")
    decades = np.log10([np.min(shares), np.max(shares)])
    axis.set_xlim(10 ** np.floor(decades[0]), 10 ** np.ceil(decades[1]))
    axis.set_xlabel("predicted standard error, share of the range", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.55 / (1 + 0.1 * count)),
                ncols=len(options), frameon=False)  # fmt: skip
    figure.tight_layout()
    return figure
