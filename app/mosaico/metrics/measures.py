"""The measures that some traces have values for, as KPIs: what a setup and `mosaico init` propose; pure."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from mosaico.metrics.score_directions import direction_of_score
from mosaico.metrics.types import Direction
from mosaico.traces.types import Trace


class Measure(NamedTuple):
    """A KPI that traces have values for; `metric` is its metric with options, as the API takes it."""

    key: str
    name: str
    text: str
    formula: str
    metric: Any
    direction: Direction
    unit: str | None = None
    is_quality: bool = True


COST: Final = Measure(
    "cost", "cost per task", "from the traces, USD", "COST_USD", "COST_USD",
    Direction.LOWER_IS_BETTER, "USD", is_quality=False,
)  # fmt: skip
LATENCY: Final = Measure(
    "latency", "latency p50", "from the traces, ms", "LATENCY_MS.p50", "LATENCY_MS",
    Direction.LOWER_IS_BETTER, "ms", is_quality=False,
)  # fmt: skip
EXPECTED: Final = (
    Measure(
        "pass", "pass rate", "share of items whose answer equals the expected one (EXACT_MATCH)",
        "EXACT_MATCH", "EXACT_MATCH", Direction.HIGHER_IS_BETTER,
    ),
    Measure(
        "similarity", "similarity", "words in common with the expected answer (ROUGE)", "ROUGE", "ROUGE",
        Direction.HIGHER_IS_BETTER,
    ),
)  # fmt: skip
FAILURES: Final = Measure(
    "failures", "failures", "share of answers that failed", "ERROR_RATE", "ERROR_RATE",
    Direction.LOWER_IS_BETTER,
)  # fmt: skip
PASSED: Final = Measure(
    "passed", "pass rate", "share of tasks that passed", "TASK_PASSED", "TASK_PASSED",
    Direction.HIGHER_IS_BETTER,
)  # fmt: skip
# Where no row can be read before the first run.
UNREAD: Final = (*EXPECTED, COST, LATENCY)
MAX_SCORES: Final = 6


def list_measures(traces: Sequence[Trace]) -> list[Measure]:
    """The measures that these traces have values for, the one that decides first: a score of the source, otherwise
    the comparison with expected answers.
    """
    return [*_scores(traces), *_measures_of_traces(traces)]


def _scores(traces: Sequence[Trace]) -> Iterator[Measure]:
    names = dict.fromkeys(name for trace in traces for name in trace.scores)
    for name in [*names][:MAX_SCORES]:
        known = direction_of_score(name, "", "").direction
        direction = Direction.HIGHER_IS_BETTER if known is Direction.NEITHER else known
        better = "lower" if direction is Direction.LOWER_IS_BETTER else "higher"
        yield Measure(
            f"score:{name}", name, "score of the file", f"SCORE[{json.dumps(name, ensure_ascii=False)}]",
            {"key": "SCORE", "options": {"name": name, "better": better}}, direction,
        )  # fmt: skip


def _measures_of_traces(traces: Sequence[Trace]) -> Iterator[Measure]:
    if any(trace.expected_output or trace.expected_any or trace.expected_all for trace in traces):
        yield from EXPECTED
    if any(trace.cost_usd is not None for trace in traces):
        yield COST
    if any(trace.latency_ms is not None for trace in traces):
        yield LATENCY
