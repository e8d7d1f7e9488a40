"""The statistics of a metric over the traces of a run, as formulas name them; pure.

PASS_AT_K and PASS_POW_K are statistics, too, although they are written as functions of the metric and of k.
"""

import re
from types import MappingProxyType
from typing import NamedTuple

# Of the trials of an item; a run with more of them is not known.
MAX_K = 999
_PERCENTILE = re.compile("p([1-9][0-9]?)")
_PASSES = re.compile("pass_(at|pow)_([1-9][0-9]{0,2})")


class FormulaStatistic(NamedTuple):
    """A statistic over the traces of a run."""

    name: str
    meaning: str


class PassStatistic(NamedTuple):
    """PASS_AT_K or PASS_POW_K of a metric, and its k."""

    function: str
    k: int

    @property
    def name(self) -> str:
        """Its name as a statistic of the metric: `pass_at_3`."""
        return f"{self.function.lower().removesuffix('k')}{self.k}"


class StatisticFunction(NamedTuple):
    """A statistic of a metric that is written as a function of the metric and a whole number k."""

    name: str
    signature: str
    meaning: str
    example: str


STATISTICS = MappingProxyType(
    {
        row.name: row
        for row in (
            FormulaStatistic(
                "mean",
                "arithmetic mean of the items, the trials of each averaged first;"
                " a bare name means the same",
            ),
            FormulaStatistic("min", "smallest value"),
            FormulaStatistic("max", "largest value"),
            FormulaStatistic("std", "standard deviation"),
            FormulaStatistic("p50", "median"),
            FormulaStatistic("p95", "95th percentile"),
            FormulaStatistic("p99", "99th percentile"),
            FormulaStatistic("sum", "sum of the values"),
            FormulaStatistic("count", "number of traces that have a value"),
            FormulaStatistic("coverage", "share of the traces that have a value, 0 to 1"),
        )
    }
)

PERCENTILES = FormulaStatistic("p1 … p99", "any other percentile, such as p90")

# Not functions of numbers: each is a statistic of its metric, so they are never called.
STATISTIC_FUNCTIONS = MappingProxyType(
    {
        row.name: row
        for row in (
            StatisticFunction(
                "PASS_AT_K",
                "PASS_AT_K(METRIC, k)",
                "estimated probability that at least one of k trials of an item passes; undefined when no item has"
                " k trials, and when a value is not 0 or 1",
                "PASS_AT_K(TASK_PASSED, 3)",
            ),
            StatisticFunction(
                "PASS_POW_K",
                "PASS_POW_K(METRIC, k)",
                "estimated probability that all of k trials of an item pass (pass^k); undefined as PASS_AT_K is",
                "PASS_POW_K(TASK_PASSED, 3)",
            ),
        )
    }
)


def percentile_of(stat: str) -> int | None:
    """The percent of a percentile, p1 to p99; None for any other statistic."""
    match = _PERCENTILE.fullmatch(stat)
    return int(match[1]) if match else None


def passes_of(stat: str) -> PassStatistic | None:
    """The function and the k of a statistic such as `pass_at_3`; None for any other one."""
    match = _PASSES.fullmatch(stat)
    return PassStatistic(f"PASS_{match[1].upper()}_K", int(match[2])) if match else None


def is_statistic(stat: str) -> bool:
    """Return whether a metric has a statistic of this name."""
    return stat in STATISTICS or percentile_of(stat) is not None or passes_of(stat) is not None
