"""What the report of a run adds to its page: the worst traces first, repeated trials, and categories."""

from mosaico.comparison.schemas import CategoryKpi, CategoryMetric, CategoryValues
from mosaico.kpis.verdict_types import RepeatedTrials, ValueVerdict
from mosaico.metrics.types import Direction
from mosaico.reporting.report_sections import tabulate_categories, tabulate_repeats, worst_results
from mosaico.runs.schemas import MetricAggregateView, TraceResultView
from mosaico.traces.types import TraceOutcome
from tests.support.views import partial_view


def result(
    trace_id: str, value: float | None, outcome: TraceOutcome = TraceOutcome.SCORED
) -> TraceResultView:
    return partial_view(
        TraceResultView, trace_id=trace_id, outcome=outcome, values={"ROUGE": value}
    )


def test_worst_results__failed_traces_come_first() -> None:
    results = [
        result("good", 0.9),
        result("bad", 0.1),
        result("silent", None),
        result("failed", None, TraceOutcome.AGENT_ERROR),
    ]

    def names(direction: Direction) -> list[str]:
        return [result.trace_id for result in worst_results(results, "ROUGE", direction)]

    assert names(Direction.HIGHER_IS_BETTER) == ["failed", "bad", "good"]
    assert names(Direction.LOWER_IS_BETTER) == ["failed", "good", "bad"]
    fifty = [result(f"t-{n}", 0.5) for n in range(50)]
    assert len(worst_results(fifty, "ROUGE", Direction.LOWER_IS_BETTER)) == 10


def test_repeats__have_a_row_for_each_k() -> None:
    once = partial_view(MetricAggregateView, metric="ROUGE", verdict=None)
    assert tabulate_repeats([once]) == []
    trials = RepeatedTrials(k=2, items=10, pass_at_k=0.6, pass_hat_k=0.4667, at_least_k=0.5)
    verdict = ValueVerdict(explanation="", repeats=(trials,))
    repeated = partial_view(MetricAggregateView, metric="ROUGE", verdict=verdict)
    assert tabulate_repeats([once, repeated]) == [
        {"metric": "ROUGE", "k": 2, "shares": ["0.6", "0.4667", "0.5"], "items": 10}
    ]


def test_categories__have_a_column_for_each_kpi_and_metric() -> None:
    interval = {"interval_low": 0.25, "interval_high": 0.75}
    quality = partial_view(CategoryKpi, name="quality", value=0.5, **interval)
    missing = partial_view(CategoryMetric, metric="F1", value=None, **interval)
    code = partial_view(CategoryValues, category="code", items=2, kpis=[quality], metrics=[])
    text = partial_view(CategoryValues, category="text", items=3, kpis=[], metrics=[missing])
    assert tabulate_categories([code, text]) == {
        "names": ["quality", "F1"],
        "rows": [("code", 2, ["0.500 (0.250 to 0.750)", None]), ("text", 3, [None, None])],
    }
