"""The verdict on an identification: GO where the values may replace the nominal ones, else NO-GO.

Judged by errors on logs that the fit has not seen. A standard error says how well the logs decide
among the values of this model; only unseen logs say whether the model is any good.
"""

from typing import Literal, NamedTuple

import numpy as np

from s2r_jax.identify import errors, paired
from s2r_jax.identify.study import Replay, Study
from s2r_jax.identify.weakest import is_nothing
from s2r_jax.parameters import ParameterSet
from s2r_jax.robot import Robot

#: Growth of the error from fitted to held-out logs beyond which the fit has learnt its logs by
#: heart. Each is counted as a share of the nominal model's error on the same logs, as some motions
#: are harder than others for any model; twice is more than the tens of per cent that remain.
OVERFIT = 2.0
#: Share of the parameters that act and must be identifiable. Two that trade are lost both, while
#: their joint posterior still says what is known; below this the logs say next to nothing.
IDENTIFIABLE = 0.25


class Verdict(NamedTuple):
    """The verdict; its fields stand in identified.json."""

    verdict: Literal["GO", "NO-GO"]
    reasons: tuple[str, ...]
    """Sentences: for NO-GO what failed, with its number; for GO what was met."""


def judge(robot: Robot, study: Study) -> Verdict:
    """Return the verdict on a study.

    Args:
        robot: Its signals and parameters.
        study: Fit, replays and hold-out.
    """
    met, failed = [], []
    for is_met, words in (*_beats_nominal(robot, study), *_fit(robot.parameters, study)):
        (met if is_met else failed).append(words)
    scored = study.holdout or study.fitted
    failed += [
        f"{words}." for words in errors.unexplained(robot.signals, scored.scores, scored.segments)
    ]
    if failed:
        return Verdict("NO-GO", tuple(failed))
    return Verdict("GO", tuple(met))


def improvement(robot: Robot, study: Study) -> paired.Interval | None:
    """Return the held-out error as a share of the nominal model's; None without a hold-out."""
    return _share(robot, study, study.holdout, study.holdout_nominal)


def _share(
    robot: Robot, study: Study, ours: Replay | None, nominal: Replay | None
) -> paired.Interval | None:
    if ours is None or nominal is None:
        return None
    tau = study.fit.correlation_time
    both = [paired.squares(robot.signals, r.error, r.segments, tau) for r in (ours, nominal)]
    return paired.ratio(*both)


def _beats_nominal(robot: Robot, study: Study) -> list[tuple[bool, str]]:
    found = improvement(robot, study)
    if found is None:
        return [(False, "No logs were held out: nothing says how the values do on unseen ones.")]
    what = (
        f"On held-out logs the error is {found.value:.0%} of the nominal model's (95 % interval "
        f"{found.low:.0%} to {found.high:.0%}, {found.blocks} independent stretches)"
    )
    words = [(found.high < 1, f"{what}{'' if found.high < 1 else ': no better beyond noise'}.")]
    if found.blocks < paired.FEWEST_BLOCKS:
        few = f"The held-out logs hold {found.blocks} independent stretches"
        words = [(False, f"{few}, and an interval needs {paired.FEWEST_BLOCKS}: hold out more.")]
    fitted = _share(robot, study, study.seen, study.seen_nominal)
    if fitted is not None and fitted.value > 0:
        worse = found.value / fitted.value
        text = f"On fitted logs that share is {fitted.value:.0%}, {worse:.2f} times less"
        is_fine = worse <= OVERFIT
        words.append((is_fine, text + ("." if is_fine else f", beyond {OVERFIT:g}: overfitted.")))
    return words


def _fit(parameters: ParameterSet, study: Study) -> list[tuple[bool, str]]:
    fit = study.fit
    steps = f"{fit.iterations} steps"
    words = [
        (True, f"The search converged in {steps}.")
        if fit.converged
        else (False, f"The search did not converge in {steps}: raise --iterations.")
    ]
    acts = ~np.isin(fit.posterior.names, fit.dead)
    words += [
        (False, f"{sentence}: the value that fits lies beyond.")
        for sentence in stopped(parameters, study)
    ]
    known = int((fit.posterior.identifiable & acts).sum())
    share = f"{known} of {int(acts.sum())} parameters that act are identifiable"
    if not acts.any():
        words.append((False, "No parameter moves any signal of these logs."))
    elif known < IDENTIFIABLE * acts.sum():
        words.append((False, f"{share}, less than {IDENTIFIABLE:.0%}."))
    else:
        words.append((True, f"{share}."))
    return words


def stopped(parameters: ParameterSet, study: Study) -> list[str]:
    """Return a sentence on each parameter that acts and that its bound held back.

    Not those whose lower bound stands for "nothing": see `weakest.is_nothing`.
    """
    posterior, found = study.fit.posterior, []
    for i, name in enumerate(posterior.names):
        value, low, high = float(posterior.value[i]), parameters.low[i], parameters.high[i]
        if not posterior.at_bound[i] or name in study.fit.dead:
            continue
        is_low = value - low < high - value
        if is_low and is_nothing(low, high):
            continue
        found.append(f"{name} ended on its {'lower' if is_low else 'upper'} bound ({value:.4g})")
    return found
