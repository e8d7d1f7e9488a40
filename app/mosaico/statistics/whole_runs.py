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
    """The variance that whole runs add to a change between two runs, on the scale of its test, and how well it is known.

    `variation` is that of one run on the same scale.
    """

    variance: float = 0.0
    degrees: float = math.inf
    variation: RunVariation | None = None


NO_RUNS: Final = RunEffect()


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
        sd = self._sd(abs(level), is_logarithm=is_logarithm)
        if self._used and not self._used.has_items:
            sd = math.sqrt(max(0.0, sd**2 - error**2 / of_means))
        return RunEffect(
            sd**2 * of_means,
            self._used.degrees if self._used else math.inf,
            RunVariation(sd, self.basis, self._used.runs if self._used else 0),
        )

    def _sd(self, size: float, *, is_logarithm: bool) -> float:
        """The standard deviation of a whole run whose value has this size, or of the logarithm of its value."""
        if self._used is not None:
            sd, is_relative = math.sqrt(self._used.between), self._used.scale is Scale.RATIO
        elif self.given_sd is not None:
            sd, is_relative = self.given_sd, self.scale is not Scale.RATE
        else:
            sd, is_relative = prior_sd(self.scale, 1.0), self.scale is not Scale.RATE
        if is_relative is is_logarithm:
            return sd
        if is_relative:
            return sd * size
        return sd / size if size else 0.0


NO_VARIATION: Final = WholeRuns(scale=Scale.RATE, given_sd=0.0)
