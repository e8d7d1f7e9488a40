"""Two runs whose change is tested, with what all formulas share. Imports numpy."""

from functools import cached_property

from mosaico.items.formulas.run_statistics import (
    RunStatistics,
    pool_items,
)
from mosaico.statistics.resampling import (
    DrawnPair,
    draw_pair,
)


class ComparedRuns:
    """A baseline and a candidate; with `is_paired` both hold the same items in the same order."""

    def __init__(
        self, baseline: RunStatistics, candidate: RunStatistics, *, is_paired: bool
    ) -> None:
        self.baseline, self.candidate, self.is_paired = baseline, candidate, is_paired

    @cached_property
    def pooled(self) -> RunStatistics:
        """The items of both runs, from which exchanges are drawn."""
        items = pool_items(self.baseline.matrix, self.candidate.matrix)
        return RunStatistics(items, self.candidate.count_metrics)

    @cached_property
    def baseline_runs(self) -> list[RunStatistics]:
        """The runs of the baseline, one by one, over the same items."""
        run = self.baseline
        if run.matrix.runs == 1:
            return [run]
        return [
            RunStatistics(run.matrix.of_run(index), run.count_metrics)
            for index in range(run.matrix.runs)
        ]

    @cached_property
    def draws(self) -> DrawnPair:
        """The exchanges and resamples, the same ones for every formula."""
        return draw_pair(self.candidate.units())
