"""The metric that a gate judges by default."""

from mosaico.comparison.primary_metric import ComparedMetric, select_primary_metric
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.metrics.types import Direction, MetricSpec


def metric(
    key: str,
    baseline: float | None,
    candidate: float | None,
    *,
    items: int = 40,
    direction: Direction = Direction.HIGHER_IS_BETTER,
) -> ComparedMetric:
    spec = MetricSpec(key=key, description="", source="", direction=direction)
    effect = None if baseline is None or candidate is None else candidate - baseline
    verdict = ValueVerdict(
        explanation="", baseline_value=baseline, value=candidate, effect=effect, items=items
    )
    return ComparedMetric(spec, verdict)


def select(*metrics: ComparedMetric) -> str | None:
    return select_primary_metric({compared.spec.key: compared for compared in metrics})


def test_primary_metric__pass_or_fail_comes_first() -> None:
    texts = (metric("ROUGE", 0.9, 0.9), metric("ACCURACY", 0.9, 0.3))
    assert select(*texts) == "ACCURACY"
    assert select(*texts, metric("TASK_PASSED", 0.9, 0.9)) == "TASK_PASSED"


def test_primary_metric__free_text_is_judged_by_overlap() -> None:
    # No free text equals the expected one: equality would never find a change.
    assert select(metric("ACCURACY", 0.0, 0.05), metric("ROUGE", 0.4, 0.2)) == "ROUGE"


def test_primary_metric__is_the_same_when_the_runs_are_exchanged() -> None:
    one_way = [metric("ACCURACY", 0.2, 0.05), metric("BLEU", 0.3, 0.9), metric("ROUGE", 0.9, 0.3)]
    other_way = [metric("ACCURACY", 0.05, 0.2), metric("BLEU", 0.9, 0.3), metric("ROUGE", 0.3, 0.9)]
    assert select(*one_way) == select(*other_way) == "ACCURACY"


def test_primary_metric__most_common_items_decide_within_a_kind() -> None:
    assert select(metric("ROUGE", 0.4, 0.4, items=10), metric("BLEU", 0.4, 0.4)) == "BLEU"
    assert select(metric('SCORE["b"]', 0.4, 0.4), metric('SCORE["a"]', 0.4, 0.4)) == 'SCORE["a"]'


def test_primary_metric__needs_values_in_both_runs_and_a_better_side() -> None:
    assert select(metric("ACCURACY", None, 0.9), metric("LATENCY_MS", 1.0, 2.0)) == "LATENCY_MS"
    assert select(metric("TOOL_CALLS", 1.0, 2.0, direction=Direction.NEITHER)) is None
    assert select() is None
