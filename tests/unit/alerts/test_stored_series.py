"""Whose verdict over runs is stored with a run."""

from mosaico.alerts.evaluation.incident_rules import SeriesStep
from mosaico.alerts.evaluation.judging import Assessed
from mosaico.alerts.evaluation.rule_memory import Memory
from mosaico.alerts.evaluation.run_evaluation import AlertDecision
from mosaico.alerts.models import AlertRule
from mosaico.alerts.rules import AlertOutcome, Assessment, Condition, ValueSpec
from mosaico.alerts.stored_series import leading_decisions
from mosaico.kpis.series_types import RunsEvidence, SeriesState, SeriesStatus
from tests.support.past_runs import past_run

WARMUP = SeriesStep(SeriesState(), RunsEvidence(status=SeriesStatus.WARMUP, limit=3.06))


def rule(rule_id: str, metric: str = "bleu") -> AlertRule:
    return AlertRule(id=rule_id, condition=Condition.REGRESSED, metric=metric)


def decision(rule_id: str, false_pages: float, step: SeriesStep | None = WARMUP) -> AlertDecision:
    assessment = Assessment(
        outcome=AlertOutcome.WARMUP, value=None, baseline=None, explanation="too few runs"
    )
    assessed = Assessed(value_spec=ValueSpec(name="bleu"), assessment=assessment, step=step)
    return AlertDecision(
        rule_id=rule_id, revision=1, run=past_run(1), memory=Memory(), assessed=assessed,
        false_pages=false_pages,
    )  # fmt: skip


def leaders(rules: list[AlertRule], *decisions: AlertDecision) -> list[str]:
    leading = leading_decisions({rule.id: rule for rule in rules}, decisions)
    return [decision.rule_id for decision in leading.values()]


def test_leading__the_rule_that_pages_first_leads_its_series() -> None:
    """`a` has the limit of the service, which a budget made smaller than that of `b`."""
    assert leaders([rule("a"), rule("b")], decision("a", 0.05), decision("b", 0.1)) == ["b"]
    assert leaders([rule("a"), rule("b")], decision("b", 0.1), decision("a", 0.25)) == ["a"]


def test_leading__equal_promises_are_ordered_by_id() -> None:
    assert leaders([rule("b"), rule("a")], decision("b", 0.25), decision("a", 0.25)) == ["a"]


def test_leading__each_series_has_its_own() -> None:
    rules = [rule("a"), rule("b", metric="rouge")]
    assert leaders(rules, decision("a", 0.25), decision("b", 0.25)) == ["a", "b"]


def test_leading__a_decision_without_a_level_or_a_rule_leads_nothing() -> None:
    assert leaders([rule("a")], decision("a", 0.25, step=None), decision("gone", 0.25)) == []
