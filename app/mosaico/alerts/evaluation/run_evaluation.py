"""Evaluates the alert rules that watch a run, from stored rows, before any write."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from sqlalchemy.orm import Session

from mosaico.alerts import queries
from mosaico.alerts.evaluation.conditions import (
    REFERENCE_LOST,
    assess_evidence,
    evaluate_condition,
)
from mosaico.alerts.evaluation.contributing_traces import TraceFinder, watched_columns
from mosaico.alerts.evaluation.incident_rules import SeriesStep
from mosaico.alerts.evaluation.rule_evidence import (
    HistoryReader,
    RuleEvidence,
    read_changes,
)
from mosaico.alerts.evaluation.series_decision import decide_step
from mosaico.alerts.rules import (
    AlertOutcome,
    Assessment,
    Condition,
    RuleSpec,
    ValueSpec,
    loses_reference,
)
from mosaico.alerts.schemas import rule_spec
from mosaico.core.db import Database
from mosaico.run_store.run_history import PastRun
from mosaico.run_store.run_result import RunResult
from mosaico.run_store.run_series import SeriesResult
from mosaico.statistics.sequential import DEFAULT_FALSE_PAGES
from mosaico.statistics.verdict_rules import Scale, Side

MAX_METRICS = 3


class RunFields(Protocol):
    """The fields of the run that changes a state."""

    @property
    def run_id(self) -> str: ...
    @property
    def run_seq(self) -> int: ...
    @property
    def benchmark_id(self) -> str: ...
    @property
    def agent_id(self) -> str: ...
    @property
    def fingerprint(self) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDecision:
    """The decision of one revision of a rule about a run.

    `seen_seq` is the run after which the state of the rule was read; None: the state was not needed.
    `step` is the next state of the series of a REGRESSED rule; `false_pages` is the number of false alarms
    in 30 runs that holds for the rule. With `is_reference_lost` the run can no longer be compared with
    those before the open incident.
    """

    rule_id: str
    revision: int
    assessment: Assessment
    seen_seq: int | None = None
    step: SeriesStep | None = None
    false_pages: float = DEFAULT_FALSE_PAGES
    is_reference_lost: bool = False


class AlertEvaluationService:
    """Judges runs by the rules about them. It only reads; `service.record_decisions` writes.

    `false_pages_budget` is the number of false alarms in 30 runs of all series together; None: each
    series has a limit of 0.25.
    """

    def __init__(self, db: Database, false_pages_budget: float | None = None) -> None:
        self._db = db
        self._budget = false_pages_budget

    def evaluate_alerts_for_run(self, result: RunResult) -> list[AlertDecision]:
        """The decision of each enabled rule; call it before the run is stored as completed.

        There are none for an invalid run: its numbers say nothing about the agent.
        """
        if not result.is_valid:
            return []
        with self._db.read() as session:
            rules = queries.list_enabled_rules(session, result.benchmark_id, result.agent_id)
            # Most runs have no rules: their history is not read.
            if not rules:
                return []
            false_pages = default_false_pages(session, self._budget)
            reader = HistoryReader(session, result)
            histories = [reader.read(rule) for rule in rules]
        # From here on no transaction is open: anomaly statistics over the history take a while.
        traces = TraceFinder(self._db, result)
        return [self._decide(history, result, false_pages, traces) for history in histories]

    def _decide(
        self, history: RuleEvidence, result: RunResult, false_pages: float, traces: TraceFinder
    ) -> AlertDecision:
        rule, value_spec, observation = history.watched
        spec = rule_spec(rule)
        assessment = evaluate_condition(spec, value_spec, observation)
        step = None
        if spec.condition is Condition.REGRESSED and observation.value is not None:
            step = _next_step(history, result.run_seq, spec, false_pages)
            assessment = _assess_series(value_spec, assessment, step, history.series_result)
        previous = history.last_before(step.state.incident if step is not None else None)
        columns = watched_columns(rule, result)[:MAX_METRICS]
        details = assessment.details.model_copy(
            update={
                "value_name": value_spec.name,
                "unit": value_spec.unit,
                "is_share": value_spec.is_share,
                "is_relative": step is not None and _is_relative(history.series_result),
                "changes": self._changes_since(history, result, previous),
                "traces": traces.find(rule, assessment, columns, previous),
            }
        )
        is_lost = history.incident is not None and loses_reference(
            spec.condition,
            assessment.outcome,
            is_same_series=history.incident.fingerprint == result.fingerprint,
        )
        if is_lost:
            assessment = replace(assessment, explanation=REFERENCE_LOST)
        return AlertDecision(
            rule_id=rule.id,
            # The revision that was read: `record_decisions` drops the decision if the rule was
            # edited meanwhile.
            revision=rule.revision,
            assessment=replace(assessment, details=details),
            seen_seq=history.seen_seq if spec.condition.excludes_incidents else None,
            step=step,
            false_pages=spec.false_pages_per_month or false_pages,
            is_reference_lost=is_lost or (step is not None and step.is_reference_lost),
        )

    def _changes_since(
        self, history: RuleEvidence, result: RunResult, previous: PastRun | None
    ) -> tuple[str, ...]:
        if previous is None or previous is history.past[-1]:
            return history.changes
        with self._db.read() as session:
            return read_changes(session, result, previous)


FALSE_PAGES_OPTION = "false_pages_per_month"


def read_budget(options: Mapping[str, str]) -> float | None:
    """The budget of false alarms among the options of the service; None without one."""
    text = options.get(FALSE_PAGES_OPTION, "")
    return float(text) if text else None


def default_false_pages(session: Session, budget: float | None) -> float:
    """The false alarms in 30 runs of one series, for rules that set none."""
    if budget is None:
        return DEFAULT_FALSE_PAGES
    # Never above the default: a large budget of a service with few series would page too often for
    # each.
    return min(DEFAULT_FALSE_PAGES, budget / max(1, queries.count_series(session)))


def _next_step(
    history: RuleEvidence, run_seq: int, spec: RuleSpec, false_pages: float
) -> SeriesStep | None:
    """None for a run without a level: it changes nothing."""
    series_result = history.series_result
    if (
        series_result is None
        or run_seq not in series_result.levels
        or series_result.point.side is Side.BOTH
    ):
        return None
    return decide_step(
        history.series,
        series_result.levels,
        run_seq,
        series_result.point.scale,
        series_result.point.side,
        history.watched.observation.verdict,
        spec,
        false_pages,
    )


def _is_relative(series_result: SeriesResult | None) -> bool:
    return series_result is not None and series_result.point.scale is Scale.RATIO


def _assess_series(
    value_spec: ValueSpec,
    alone: Assessment,
    step: SeriesStep | None,
    series_result: SeriesResult | None,
) -> Assessment:
    if alone.outcome is AlertOutcome.NO_DATA:
        return alone
    if step is None or series_result is None:
        # Without a level there is no evidence, and the verdict of the run alone must not page.
        return replace(alone, outcome=AlertOutcome.WARMUP)
    # The levels are logarithms on this scale, whatever the unit of the value is.
    spec = replace(value_spec, logarithmic=_is_relative(series_result))
    return assess_evidence(spec, alone, step.evidence)
