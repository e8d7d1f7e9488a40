"""What whole runs add to the error of a change between two runs; pure.

The same model as that of alerts (`run_variance`): the effect of a whole run is assumed before there are earlier runs,
measured with them (the assumption counts as one run), or stated by the user.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mosaico.statistics.run_variance import prior_sd
from mosaico.statistics.sequential import MAX_REFERENCE, RunLevel, estimate_variance, mean_level
from mosaico.statistics.verdict_rules import RunsBasis, RunVariation, Scale

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
    """The variance that whole runs add to a change between two runs, on the scale of its test, and how well it is known."""

    variance: float = 0.0
    degrees: float = math.inf


def measure_runs(levels: Sequence[RunLevel], scale: Scale) -> MeasuredRuns | None:
    """How much whole runs of a series vary, from the levels of unchanged runs; None of fewer than two.

    A run with the value 0 on a scale of logarithms has no level, and is left out. The last 60 runs count.
    """
    runs = [level for level in levels if not level.is_zero][-MAX_REFERENCE:]
    if len(runs) < _LEAST_RUNS:
        return None
    variance = estimate_variance(runs, prior_sd=prior_sd(scale, mean_level(runs)))
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

    def variation(
        self, level: float, *, is_logarithm: bool, item_variance: float = 0.0
    ) -> RunVariation:
        """The standard deviation of a whole run at a level of the value, on the scale of a test.

        `item_variance` is what the items of one run add to its level, where the measured runs include it.
        """
        variance = self._variance(level, item_variance, is_logarithm=is_logarithm)
        return RunVariation(variance**0.5, self.basis, self._used.runs if self._used else 0)

    def effect(
        self,
        level: float,
        *,
        is_logarithm: bool,
        baseline_runs: int = 1,
        error: float = 0.0,
    ) -> RunEffect:
        """What whole runs add to a change from the mean of some baseline runs, which has the standard error `error`."""
        of_means = 1 + 1 / baseline_runs
        variance = self._variance(level, error**2 / of_means, is_logarithm=is_logarithm)
        return RunEffect(variance * of_means, self._used.degrees if self._used else math.inf)

    def _variance(self, level: float, item_variance: float, *, is_logarithm: bool) -> float:
        size = abs(level)
        if self._used is not None:
            variance = self._used.between
            if (self._used.scale is Scale.RATIO) is not is_logarithm:
                variance = _rescaled(variance, size, is_logarithm=is_logarithm)
            return variance if self._used.has_items else max(0.0, variance - item_variance)
        if self.given_sd is not None:
            sd = self.given_sd * (1.0 if self.scale is Scale.RATE else size)
        else:
            sd = prior_sd(self.scale, level) * (size if self.scale is Scale.RATIO else 1.0)
        return _rescaled(sd**2, size, is_logarithm=True) if is_logarithm else sd**2


NO_VARIATION: Final = WholeRuns(scale=Scale.RATE, given_sd=0.0)


def _rescaled(variance: float, size: float, *, is_logarithm: bool) -> float:
    """The variance of a value as that of its logarithm, or the reverse."""
    if is_logarithm:
        return variance / size**2 if size else 0.0
    return variance * size**2
