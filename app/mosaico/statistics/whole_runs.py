"""What whole runs add to the error of a change between two runs; pure.

The same model as that of alerts (`run_variance`): the effect of a whole run is assumed before there are earlier runs,
measured with them (the assumption counts as one run), or stated by the user.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mosaico.statistics.run_variance import from_normal, prior_sd
from mosaico.statistics.sequential import (
    MAX_REFERENCE,
    RunLevel,
    assumed_sd,
    estimate_variance,
)
from mosaico.statistics.verdict_rules import RunsBasis, RunVariation, Scale

# The normal quantile of a 95 % interval.
_INTERVAL_Z: Final = 1.96
# A single run says nothing about how runs vary.
_LEAST_RUNS: Final = 2


class MeasuredRuns(NamedTuple):
    """The variance `between` whole runs of a series, from so many `runs`, with its degrees of freedom.

    On the scale RATIO it is that of logarithms. `has_items`: the noise of the items is not part of it.
    """

    scale: Scale
    between: float
    degrees: float
    runs: int
    has_items: bool = True


class RunEffect(NamedTuple):
    """The variance that whole runs add to a change between two runs, on the scale of its test, and how well it is known.

    `variation` is that of one run on the same scale.
    """

    variance: float = 0.0
    degrees: float = math.inf
    variation: RunVariation | None = None

    def widened(self, variance: float) -> "RunEffect":
        """The effect with another variance that all items of a run share."""
        return self._replace(variance=self.variance + variance)

    def half_width(self, error: float) -> float:
        """Half of the 95 % interval of a change whose items have this standard error."""
        quantile = _INTERVAL_Z
        if math.isfinite(self.degrees):
            quantile = from_normal(_INTERVAL_Z, self.degrees)
        return quantile * math.hypot(error, math.sqrt(self.variance))


NO_RUNS: Final = RunEffect()


def measure_runs(levels: Sequence[RunLevel], scale: Scale) -> MeasuredRuns | None:
    """How much whole runs of a series vary, from the levels of unchanged runs; None of fewer than two.

    A run with the value 0 on a scale of logarithms has no level, and is left out. The last 60 runs count.
    """
    runs = [level for level in levels if not level.is_zero][-MAX_REFERENCE:]
    if len(runs) < _LEAST_RUNS:
        return None
    variance = estimate_variance(runs, prior_sd=assumed_sd(runs, scale))
    has_items = any(run.noise is not None for run in runs)
    return MeasuredRuns(scale, variance.between, variance.degrees, len(runs), has_items)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRuns:
    """How much whole runs of one value vary, for a change of it.

    `scale` is that of the value. `given_sd` is what the user states: points of a share, a fraction of any other value.
    """

    scale: Scale
    measured: MeasuredRuns | None = None
    given_sd: float | None = None

    @property
    def basis(self) -> RunsBasis:
        if self.given_sd is not None:
            return RunsBasis.GIVEN
        return RunsBasis.ASSUMED if self.measured is None else RunsBasis.MEASURED

    @property
    def _used(self) -> MeasuredRuns | None:
        """What was measured, unless the user states the deviation."""
        return self.measured if self.given_sd is None else None

    def effect(
        self,
        level: float,
        *,
        is_logarithm: bool,
        baseline_runs: int = 1,
        error: float = 0.0,
    ) -> RunEffect:
        """What whole runs add to a change from the mean of some baseline runs, whose items have the standard error `error`.

        Few runs tell little about their variation. Where they do not vary more than assumed, the error is not made larger
        by that than the assumption makes it.
        """
        of_means = 1 + 1 / baseline_runs
        if self._used is None:
            sd = self.assumed_sd(abs(level), is_logarithm=is_logarithm)
            return RunEffect(sd * sd * of_means, math.inf, RunVariation(sd, self.basis))
        sd = self._measured_sd(self._used, abs(level), is_logarithm=is_logarithm)
        if not self._used.has_items:
            sd = math.sqrt(max(0.0, sd * sd - error * error / of_means))
        variation = RunVariation(sd, self.basis, self._used.runs)
        measured = RunEffect(sd * sd * of_means, self._used.degrees, variation)
        prior = self.assumed_sd(abs(level), is_logarithm=is_logarithm)
        kept = RunVariation(prior, RunsBasis.ASSUMED, self._used.runs)
        assumed = RunEffect(prior * prior * of_means, math.inf, kept)
        is_wider = assumed.half_width(error) < measured.half_width(error)
        return assumed if sd <= prior and is_wider else measured

    def assumed_sd(self, size: float, *, is_logarithm: bool) -> float:
        """The standard deviation that is assumed, or stated, of a whole run whose value has this size, or of the logarithm of
        its value.
        """
        sd = prior_sd(self.scale, 1.0) if self.given_sd is None else self.given_sd
        is_relative = self.scale is not Scale.RATE
        return _on_test_scale(sd, size, is_relative=is_relative, is_logarithm=is_logarithm)

    def _measured_sd(self, runs: MeasuredRuns, size: float, *, is_logarithm: bool) -> float:
        is_relative = runs.scale is Scale.RATIO
        return _on_test_scale(
            math.sqrt(runs.between), size, is_relative=is_relative, is_logarithm=is_logarithm
        )


def _on_test_scale(sd: float, size: float, *, is_relative: bool, is_logarithm: bool) -> float:
    """A standard deviation, a fraction of the value or one in its unit, on the scale of a test."""
    if is_relative is is_logarithm:
        return sd
    if is_relative:
        return sd * size
    return sd / size if size else 0.0


NO_VARIATION: Final = WholeRuns(scale=Scale.RATE, given_sd=0.0)
