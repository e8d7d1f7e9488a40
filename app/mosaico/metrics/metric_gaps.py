"""Metrics that lack values of too many traces, so that their means say nothing about the agent; pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mosaico.core.parameter_names import better_score, score_range
from mosaico.formula.ast import split_filter
from mosaico.metrics.aggregate import Aggregate
from mosaico.metrics.registry import provider_for
from mosaico.metrics.run_value import is_counted
from mosaico.metrics.types import Direction, MetricRef, MetricSkipReason

# Statistics that count the values, and so are right without all of them.
COUNTING_STATISTICS: Final = frozenset({"coverage", "n", "count"})
_JUDGEMENTS: Final = ("SCORE", "LLM_JUDGE", "TASK_PASSED", "TASK_SCORE")


class MetricGap(NamedTuple):
    """A metric that has values of `measured` of its `expected` traces. On `failed` of them the agent failed, and the
    worst value is not known. `noun` is what has one trace each; `is_file`: the traces are those of a file.
    """

    ref: MetricRef
    measured: int
    expected: int
    failed: int = 0
    noun: str = "items"
    is_file: bool = False

    def describe(self) -> str:
        """For example "scores for 20 of 60 items; measure them all, or lower minCoverage"."""
        spec = provider_for(self.ref).spec
        if self.failed:
            return (
                f"{self.failed} of {self.expected} answers failed and the range of {spec.key} is not known: "
                f"{_remedy(self.ref, spec.direction, is_file=self.is_file)}"
            )
        values = "scores" if is_judgement(spec.key) else "values"
        remedy = "measure them all" if self.is_file else "measure them all, or lower minCoverage"
        return f"{values} for {self.measured} of {self.expected} {self.noun}; {remedy}"


def find_gaps(
    refs: Iterable[MetricRef],
    aggregates: Mapping[str, Aggregate],
    min_coverage: float,
    *,
    has_trials: bool = False,
    is_file: bool = False,
) -> dict[str, MetricGap]:
    """The metrics, by column, with values of less than `min_coverage` of their traces, and those without a worst value
    for traces on which the agent failed. The registry of metrics must be loaded.

    A ratio of counts is not one of them: it weighs the traces itself.
    """
    gaps = {}
    for ref in refs:
        column = provider_for(ref).spec.key
        aggregate = aggregates.get(column)
        if aggregate is None or is_counted(ref):
            continue
        failed = aggregate.missing.get(MetricSkipReason.AGENT_ERROR, 0)
        if failed or aggregate.n < min_coverage * aggregate.expected:
            gaps[column] = MetricGap(
                ref,
                aggregate.n,
                aggregate.expected,
                failed,
                noun="traces" if has_trials else "items",
                is_file=is_file,
            )
    return gaps


def is_judgement(column: str) -> bool:
    """Return whether a column holds what a source, or a judge, says of an answer."""
    return column.partition("[")[0].partition("{")[0] in _JUDGEMENTS


def _remedy(ref: MetricRef, direction: Direction, *, is_file: bool) -> str:
    if split_filter(ref.key).key != "SCORE":
        return "set `worst` in its specification"
    name = str(dict(ref.options).get("name", ""))
    has_direction = direction is not Direction.NEITHER
    if is_file:
        names = [] if has_direction else [better_score(name, "higher")]
        return f"set {' and '.join([*names, score_range(name)])}"
    # With the options that it has: whoever copies them loses none.
    options = {
        **dict(ref.options),
        **({} if has_direction else {"better": "higher"}),
        "range": "0..1",
    }
    return f"set its options in the benchmark, such as {json.dumps(options, ensure_ascii=False)}"
