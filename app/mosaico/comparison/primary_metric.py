"""The primary metric of two runs, which a gate judges by default; pure."""

from collections.abc import Mapping
from typing import NamedTuple

from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.metrics.types import Direction, MetricSpec

# Kinds of metrics, the most direct answer to "did it do the task?" first; in one kind the order
# decides between equally covered metrics.
_PREFERENCE: tuple[tuple[str, ...], ...] = (
    ("TASK_PASSED",),
    ("ACCURACY", "EXACT_MATCH", "CONTAINS"),
    ("LLM_JUDGE",),
    ("SCORE",),
    ("ROUGE", "ROUGE_1", "ROUGE_2", "BLEU", "EDIT_SIMILARITY", "SEMANTIC_SIMILARITY"),
    ("TASK_SCORE",),
    ("STATUS", "ERROR_RATE", "JSON_VALID"),
)
_PASS_OR_FAIL = frozenset({"ACCURACY", "EXACT_MATCH", "CONTAINS"})
# Below this share of equal texts the answers are free text, for which equality says nothing.
_FEWEST_EQUAL_TEXTS = 0.1


class _Position(NamedTuple):
    kind: int
    order: int


class ComparedMetric(NamedTuple):
    """A metric of both runs."""

    spec: MetricSpec
    verdict: ValueVerdict


def select_primary_metric(metrics: Mapping[str, ComparedMetric]) -> str | None:
    """The primary metric, by column; None when no metric with a better side was compared.

    The first kind of `_PREFERENCE` that has a value in both runs, and of that kind the metric with
    the most common items. Metrics of no kind come last. Exchanging the two runs changes nothing: a
    choice by the better value of one run would find regressions in unchanged runs, because the
    best of several values is more often high by chance.
    """
    candidates = [
        (position.kind, -(metric.verdict.items or 0), position.order, column)
        for column, metric in metrics.items()
        if _is_candidate(metric)
        for position in [_position(metric.spec.key)]
    ]
    return min(candidates)[-1] if candidates else None


def _is_candidate(metric: ComparedMetric) -> bool:
    verdict = metric.verdict
    if verdict.effect is None or verdict.baseline_value is None or verdict.value is None:
        return False
    if metric.spec.direction is Direction.NEITHER:
        return False
    is_free_text = verdict.baseline_value + verdict.value < 2 * _FEWEST_EQUAL_TEXTS
    return not (metric.spec.key in _PASS_OR_FAIL and is_free_text)


def _position(key: str) -> _Position:
    """Return the position of a metric in `_PREFERENCE`; all scores `SCORE["name"]` share one
    position.
    """
    family = key.partition("[")[0]
    for kind, keys in enumerate(_PREFERENCE):
        if family in keys:
            return _Position(kind, keys.index(family))
    return _Position(len(_PREFERENCE), 0)
