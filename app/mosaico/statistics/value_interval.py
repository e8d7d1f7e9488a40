"""The confidence interval of a value of one run. Needs numpy."""

import math
from dataclasses import dataclass, replace

import numpy as np

from mosaico.statistics.change import UnitInfluences
from mosaico.statistics.distributions import normal_quantile, t_cdf, t_quantile
from mosaico.statistics.intervals import Interval, score_interval
from mosaico.statistics.trials import FloatArray
from mosaico.statistics.verdict_rules import CONFIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueEstimate:
    """A value of a run with its 95 % interval and standard error; None when unknown."""

    value: float
    interval: Interval | None
    error: float | None
    degrees: float = 0.0

    def transformed(self, slope: float, offset: float) -> "ValueEstimate":
        """The estimate of `offset + slope * value`."""
        ends = self.interval and sorted(
            offset + slope * end for end in (self.interval.low, self.interval.high)
        )
        return replace(
            self,
            value=offset + slope * self.value,
            interval=Interval(low=ends[0], high=ends[1]) if ends else None,
            error=None if self.error is None else abs(slope) * self.error,
        )

    def probability_at_least(self, threshold: float) -> float | None:
        """The probability that the value is at least a threshold, by Student's t."""
        if self.error is None:
            return None
        if self.error == 0:
            return float(self.value >= threshold)
        probability = t_cdf((self.value - threshold) / self.error, self.degrees)
        # Numbers near the largest float have no error that could be computed.
        return probability if math.isfinite(probability) else None


def estimate_value(
    value: float,
    units: UnitInfluences,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    passes: int | None = None,
) -> ValueEstimate:
    """The interval of a value from the influences of its units.

    A value between two limits gets Wilson's interval for as many passes as have its variance (the
    effective sample size), so that 60 of 60 in ten clusters is not [1, 1]. A value with only a
    lower limit of 0 (latency, cost) is taken as a logarithm, any other gets Student's t. `passes`
    is the number of values when each is 0 or 1.
    Source: Wilson 1927; Korn and Graubard 1998 for the effective sample size.
    """
    count, limits = len(units.share), None
    if minimum is not None and maximum is not None and math.isfinite(maximum - minimum):
        limits = Interval(low=minimum, high=maximum)
    if count < 2:  # noqa: PLR2004 - a variance
        interval = None
        if count == 1 and passes == 1 and limits is not None:
            interval = _bounded(value, 0.0, count, 0.0, limits, passes)
        return ValueEstimate(value=value, interval=interval, error=None)
    variance, degrees = units.variance
    error, quantile = math.sqrt(variance), t_quantile((1 + CONFIDENCE) / 2, degrees)
    if limits is not None:
        interval = _bounded(value, error, count, degrees, limits, passes)
    elif minimum == 0.0 and value > 0:
        ratio = math.exp(min(quantile * error / value, 700.0))
        interval = Interval(low=value / ratio, high=value * ratio)
    else:
        interval = Interval(low=value - quantile * error, high=value + quantile * error)
    # A point says that no other value is possible, which a few equal values do not show.
    is_known = error > 0 or limits is not None
    return ValueEstimate(
        value=value, interval=interval if is_known else None, error=error, degrees=degrees
    )


def resampled_value(rows: FloatArray) -> ValueEstimate:
    """The estimate of a value from its resamples; row 0 is the value itself.

    For values that jump: percentiles, and formulas with a THRESHOLD or IF.
    """
    resamples = rows[1:][np.isfinite(rows[1:])]
    if len(resamples) < 2:  # noqa: PLR2004 - a deviation
        return ValueEstimate(value=float(rows[0]), interval=None, error=None)
    low, high = np.quantile(resamples, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return ValueEstimate(
        value=float(rows[0]),
        interval=Interval(low=float(low), high=float(high)),
        error=float(resamples.std(ddof=1)),
        degrees=math.inf,
    )


def share_interval(
    share: float, variance: float, units: int, degrees: float, passes: int | None, alpha: float
) -> Interval:
    """The interval of a share at the level 1 - alpha, from the variance of the share among its units.

    It is Wilson's for as many passes as have this variance, the effective number. Without spread nothing is known of
    other units: each counts as one pass or failure. Arguments as in `estimate_value`; `degrees` are those of the
    variance.
    """
    size = share * (1 - share) / variance if variance > 0 else float(units)
    if passes is not None:
        size = min(size, float(passes))
    if passes == units:
        # Single passes: their variance follows from the share and need not be estimated.
        return score_interval(share, float(units), -normal_quantile(alpha / 2))
    return score_interval(share, size, -t_quantile(alpha / 2, degrees))


def _bounded(
    value: float,
    error: float,
    units: int,
    degrees: float,
    limits: Interval,
    passes: int | None,
) -> Interval:
    width = limits.high - limits.low
    if width == 0:
        # No other value is possible: a formula such as 0 * ACCURACY + 1.
        return limits
    # Rounding may bring the value beyond a limit.
    share = min(max((value - limits.low) / width, 0.0), 1.0)
    relative_error = error / width
    interval = share_interval(
        share, relative_error * relative_error, units, degrees, passes, 1 - CONFIDENCE
    )
    return Interval(low=limits.low + width * interval.low, high=limits.low + width * interval.high)
