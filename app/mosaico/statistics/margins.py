"""The harm of a change, and its comparison with a margin; pure."""

from enum import StrEnum
from typing import NamedTuple

from mosaico.statistics.verdict_rules import Side

# Numbers that differ by less than this fraction are equal.
_TOLERANCE = 1e-9


class Harm(NamedTuple):
    """The harm of a change and its interval: positive is worse, negative is better.

    The limits are None when the interval is unknown.
    """

    low: float | None
    estimate: float
    high: float | None


class MarginOutcome(StrEnum):
    """The comparison of a harm with a margin."""

    PASS = "PASS"  # noqa: S105 - no password, an outcome
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


def harm_of(effect: float, low: float | None, high: float | None, side: Side) -> Harm:
    """The harm of a change with its interval; on the side BOTH a change in any direction is harm."""
    if side is Side.HIGH:
        return Harm(low, effect, high)
    if side is Side.LOW:
        return Harm(None if high is None else -high, -effect, None if low is None else -low)
    if low is None or high is None:
        return Harm(None, abs(effect), None)
    return Harm(
        0.0 if low <= 0 <= high else min(abs(low), abs(high)), abs(effect), max(abs(low), abs(high))
    )


def assess_drop(harm: Harm, margin: float) -> MarginOutcome:
    """Return whether a harm of at least `margin` is observed and proved to be more than chance.

    FAIL when the interval excludes zero harm and the estimate reaches the margin; PASS when the
    whole interval is within the margin; otherwise INCONCLUSIVE. Neither a larger harm nor a smaller
    margin gives a milder outcome.
    """
    if harm.low is not None and harm.low > 0 and reaches(harm.estimate, margin):
        return MarginOutcome.FAIL
    return _pass_if(harm.high is not None and harm.high <= margin)


def assess_non_inferiority(harm: Harm, margin: float) -> MarginOutcome:
    """Return whether the harm is proved to be below `margin`: PASS below, FAIL above, else
    INCONCLUSIVE.

    Source: ICH E9 §3.3.2 (non-inferiority by a confidence interval).
    """
    if harm.low is not None and harm.low > margin:
        return MarginOutcome.FAIL
    return _pass_if(harm.high is not None and harm.high < margin)


def _pass_if(is_proved: bool) -> MarginOutcome:  # noqa: FBT001 - the only argument
    return MarginOutcome.PASS if is_proved else MarginOutcome.INCONCLUSIVE


def reaches(size: float, limit: float) -> bool:
    """Return whether a size is at least a limit, but for rounding: 8 of 40 items are a drop
    of 0.2.
    """
    return size >= limit * (1 - _TOLERANCE)
