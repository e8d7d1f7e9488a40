"""Benchmarks over random data: every metric, formulas of many shapes, and two runs of a few odd items."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from hypothesis import strategies as st

from mosaico.comparison.pair_comparison import RunPair
from mosaico.gating.offline_gate import pair_files
from mosaico.gating.offline_metrics import select_metrics
from mosaico.metrics.formula_direction import KpiFormulaText
from mosaico.metrics.model_metrics import is_remote
from mosaico.metrics.registry import METRICS
from mosaico.metrics.types import MetricRef
from mosaico.traces.files.trace_file import TraceReader
from tests.support.service import JSON, ndjson

EXTREMES = (1.7e308, -1.7e308, 1e200, -1e-200, 5e-324, 0.0, 1.0)
# How a field of the traces of a run is filled.
SHAPES = ("missing", "one", "constant", "zero", "binary", "random", "extreme", "gaps")
FORMULAS: Mapping[str, str] = {
    "same": "ACCURACY",
    "scaled": "100 * ACCURACY",
    "constant": "0 * ACCURACY + 1",
    "greatest": "MAX(BLEU, BLEU) * 100",
    "least": "MIN(ROUGE, BLEU, F1_SCORE)",
    "calls": "100 * TOOL_CALL_SUCCESS_RATE",
    "failed calls": "1 - TOOL_CALL_SUCCESS_RATE",
    "mixed": "WEIGHTED_SUM(TOOL_CALL_SUCCESS_RATE:0.5, ACCURACY:0.5)",
    "cost per call": "COST_USD.sum / TOOL_CALLS_OK.sum",
    "cost per pass": "COST_USD / TASK_PASSED",
    "tokens per call": "TOTAL_TOKENS.sum / TOOL_CALLS.sum",
    "squared": 'SCORE["x"] * SCORE["x"]',
    "quotient": 'SCORE["x"] / SCORE["y"]',
    "difference": 'ABS(SCORE["x"] - SCORE["y"])',
    "percentile": "LATENCY_MS.p95",
    "score percentile": 'SCORE["x"].p50',
    "spread": 'SCORE["x"].std',
    "total": 'SCORE["x"].sum',
    "slowest": "LATENCY_MS.max",
    "logarithm": "LOG(LATENCY_MS)",
    "root": 'SQRT(SCORE["x"])',
    "coverage": 'SCORE["x"].coverage',
    "limit": "THRESHOLD(ACCURACY, 0.5)",
    "branch": "IF ERROR_RATE > 0.1 THEN 0 ELSE ROUGE",
    "clamped": 'CLAMP(SCORE["x"], 0, 1)',
    "default": "COALESCE(TOOL_CALL_SUCCESS_RATE, 0)",
    "filtered": 'ACCURACY{category="a"}',
}  # fmt: skip
_FIELDS = (
    "latencyMs", "costUsd", "inputTokens", "outputTokens", "turns", "calls", "x", "y", "TASK_SCORE",
    "TASK_PASSED",
)  # fmt: skip
_BOUNDED = frozenset({"TASK_SCORE", "TASK_PASSED"})
_WHOLE = frozenset({"inputTokens", "outputTokens", "turns"})


class RandomBenchmark(NamedTuple):
    """The metrics as a benchmark has them, KPI formulas by name, and the traces of two runs."""

    metrics: list[Any]
    kpis: dict[str, str]
    baseline: list[JSON]
    candidate: list[JSON]


def measure_runs(benchmark: RandomBenchmark) -> RunPair:
    """The two runs, measured as files are; all metrics are judged, also those without any value."""
    reader = TraceReader(lambda _: None, lambda _: None)
    selected = select_metrics(
        json.dumps(benchmark.metrics),
        {name: KpiFormulaText(text) for name, text in benchmark.kpis.items()},
    )
    with TemporaryDirectory() as name:
        baseline, candidate = Path(name) / "baseline.jsonl", Path(name) / "candidate.jsonl"
        baseline.write_bytes(ndjson(benchmark.baseline))
        candidate.write_bytes(ndjson(benchmark.candidate))
        return pair_files(baseline, candidate, selected, reader, [*selected.columns.values()])


def list_metrics(labels: str) -> list[Any]:
    """Every metric that calls no model; those of words are label metrics where `labels` is set."""
    names = sorted(
        name for name in METRICS.names() if name != "SCORE" and not is_remote(MetricRef.of(name))
    )
    options = {"labels": labels} if labels else {}
    return [
        *(
            {"key": name, "options": options} if name in {"F1_SCORE", "PRECISION"} else name
            for name in names
        ),
        *({"key": "SCORE", "options": {"name": name}} for name in "xy"),
        'ACCURACY{category="a"}',
        'TOOL_CALL_SUCCESS_RATE{category="a"}',
    ]


@st.composite
def random_benchmarks(draw: st.DrawFn) -> RandomBenchmark:
    """A benchmark with up to six KPIs. The two runs may have other shapes, items and trials."""
    names = draw(st.lists(st.sampled_from([*FORMULAS]), unique=True, min_size=1, max_size=6))
    items = draw(st.sampled_from([1, 2, 3, 4, 7, 30]))
    trials = draw(st.sampled_from([1, 1, 3]))
    shapes = draw(st.fixed_dictionaries({name: st.sampled_from(SHAPES) for name in _FIELDS}))
    texts = draw(st.sampled_from(["equal", "different", "random", "blank", "foreign"]))
    runs = [
        _draw_run(draw, range(items), trials, shapes, texts),
        _draw_run(draw, _shared_items(draw, items), trials, shapes, texts),
    ]
    return RandomBenchmark(
        list_metrics(draw(st.sampled_from(["", "macro", "micro", "weighted"]))),
        {name: FORMULAS[name] for name in names},
        *runs,
    )


def _shared_items(draw: st.DrawFn, items: int) -> Sequence[int]:
    """The items of the second run: the same, some of them, others as well, or only others."""
    return draw(
        st.sampled_from(
            [range(items), range(items), range(items // 2, items), range(items // 2, 2 * items),
             range(items, 2 * items)]
        )
    )  # fmt: skip


def _draw_run(
    draw: st.DrawFn, items: Sequence[int], trials: int, shapes: Mapping[str, str], texts: str
) -> list[JSON]:
    source = random.Random(draw(st.integers(0, 2**32)))
    # One field has another shape than in the other run.
    changed = draw(st.sampled_from(_FIELDS))
    shapes = {**shapes, changed: draw(st.sampled_from(SHAPES))}
    outcome = draw(st.sampled_from(["scored", "scored", "scored", "mixed", "agent_error"]))
    has_outcomes = draw(st.booleans())
    traces = [
        {"traceId": f"t-{item}-{trial}", "itemId": f"i-{item}", "trial": trial}
        for item in items
        for trial in range(trials if trials == 1 else source.randint(1, trials))
    ]
    columns = {name: _column(source, name, shape, len(traces)) for name, shape in shapes.items()}
    for index, trace in enumerate(traces):
        more = _texts(source, texts)
        numbers = {name: column[index] for name, column in columns.items()}
        number_of_calls = numbers.pop("calls")
        scores = {name: numbers.pop(name) for name in ("x", "y", "TASK_SCORE", "TASK_PASSED")}
        more |= {name: number for name, number in numbers.items() if number is not None}
        more["scores"] = {name: number for name, number in scores.items() if number is not None}
        more["tags"] = [f"category:{source.choice('ab')}"]
        if number_of_calls is not None:
            more["toolCalls"] = _calls(
                source, shapes["calls"], number_of_calls, has_outcomes=has_outcomes
            )
        failed = outcome == "agent_error" or (outcome == "mixed" and source.random() < 0.5)
        if failed:
            more |= {"outcome": source.choice(["agent_error", "timeout"]), "error": "it failed"}
        trace.update(more)
    return traces


def _column(source: random.Random, name: str, shape: str, count: int) -> list[float | None]:
    column = [_number(source, shape) for _ in range(count)]
    if shape == "one":
        column = [1.0 if index == 0 else None for index in range(count)]
    if name in _BOUNDED:
        return [None if number is None else min(max(number, 0.0), 1.0) for number in column]
    if name in {"x", "y"}:
        return column
    return [_amount(name, number) for number in column]


def _amount(name: str, number: float | None) -> float | int | None:
    """A number that is not negative; a small whole one where the field is a count."""
    if number is None:
        return None
    return int(min(abs(number), 1000)) if name in {*_WHOLE, "calls"} else abs(number)


def _number(source: random.Random, shape: str) -> float | None:
    match shape:
        case "constant":
            return 0.1
        case "zero":
            return 0.0
        case "binary":
            return float(source.randint(0, 1))
        case "extreme":
            return source.choice(EXTREMES)
        case "random" | "gaps":
            number = source.uniform(-3, 10)
            return None if shape == "gaps" and source.random() < 0.5 else number
        case _:
            return None


def _calls(source: random.Random, shape: str, count: float, *, has_outcomes: bool) -> list[JSON]:
    """Tool calls in unequal numbers; all of them succeed unless their shape is random."""
    number = int(count) % 7 if shape in {"random", "gaps"} else source.randint(0, 5)
    if not has_outcomes:
        return [{"name": "search"}] * number
    is_random = shape in {"random", "binary"}
    return [{"name": "search", "ok": not is_random or source.random() < 0.7} for _ in range(number)]


def _texts(source: random.Random, texts: str) -> JSON:
    expected, other = "the pelican flew over the harbor", "nobody saw it land here"
    if texts == "random":
        texts = source.choice(["equal", "different", "blank"])
    match texts:
        case "equal":
            return {"expectedOutput": expected, "output": expected}
        case "different":
            return {"expectedOutput": expected, "output": other}
        case "foreign":
            return {"expectedOutput": "пеликан", "output": "ペリカン"}
        case _:
            return {"expectedOutput": expected, "output": ""}
