"""Evaluates the alert rules that watch a run, from stored rows, before any write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from mosaico.alerts import queries
from mosaico.alerts.evaluation.change_finder import ChangeFinder
from mosaico.alerts.evaluation.contributing_traces import TraceFinder, watched_columns
from mosaico.alerts.evaluation.incident_rules import SeriesStep
from mosaico.alerts.evaluation.judging import Assessed, Judge
from mosaico.alerts.evaluation.rule_evidence import (
    EvidenceReader,
    RuleEvidence,
    with_run,
)
from mosaico.alerts.evaluation.rule_memory import Memory
from mosaico.alerts.rules import AlertStatus, Assessment
from mosaico.alerts.schemas import rule_spec
from mosaico.comparison.attribute_differences import MAX_DIFFERENCES
from mosaico.comparison.attribute_text import list_differences
from mosaico.core.db import Database
from mosaico.kpis.verdict_types import FallenSlice
from mosaico.run_store.recorded_attributes import WhatChanged
from mosaico.run_store.rules import RunStatus
from mosaico.run_store.run_history import PastRun
from mosaico.run_store.run_result import RunResult
from mosaico.statistics.sequential import DEFAULT_FALSE_PAGES

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

    `memory` is what the rule remembers of the runs before it, and `assessed` the condition for the run; None for a
    run that repeats another one, of which `alone` is the condition if it needs no other run. `seen_seq` is the run
    after which the memory was read; None: it was not read. With `is_new` the memory follows from the stored runs,
    and `last` is the last assessment of these; `status` is the state after them. `false_pages` is the number of false alarms in 30 runs that holds for the rule.
    """

    rule_id: str
    revision: int
    run: PastRun
    memory: Memory
    assessed: Assessed | None = None
    alone: Assessment | None = None
    last: Assessment | None = None
    status: AlertStatus = AlertStatus.OK
    seen_seq: int | None = None
    is_new: bool = False
    false_pages: float = DEFAULT_FALSE_PAGES

    @property
    def step(self) -> SeriesStep | None:
        """The next state of the series of a REGRESSED rule."""
        return self.assessed.step if self.assessed is not None else None

    @property
    def is_reference_lost(self) -> bool:
        return self.assessed is not None and self.assessed.is_reference_lost


class _Finders(NamedTuple):
    """What explains a breach: the traces behind it, and what changed before it."""

    traces: TraceFinder
    changes: ChangeFinder


class AlertEvaluationService:
    """Judges runs by the rules about them. It only reads; `service.record_decisions` writes.

    `false_pages` is the number of false alarms in 30 runs of one series that holds for rules which set none. It
    does not depend on other series: what others create never changes a verdict.
    """

    def __init__(self, db: Database, false_pages: float = DEFAULT_FALSE_PAGES) -> None:
        self._db = db
        self._false_pages = false_pages

    def evaluate_alerts_for_run(self, result: RunResult) -> list[AlertDecision]:
        """The decision of each enabled rule; call it before the run is stored as completed.

        There are none for an invalid run: its numbers say nothing about the agent.
        """
        if not result.is_valid:
            return []
        run = _run_of(result)
        with self._db.read() as session:
            rules = queries.list_enabled_rules(session, result.benchmark_id, result.agent_id)
            # Most runs have no rules: their history is not read.
            if not rules:
                return []
            reader = EvidenceReader(session, result, run)
            evidence = [reader.read(rule) for rule in rules]
        # From here on no transaction is open: anomaly statistics over the history take a while.
        finders = _Finders(TraceFinder(self._db, result), ChangeFinder(self._db, result))
        return [self._decide(each, result, run, finders) for each in evidence]

    def _decide(
        self,
        evidence: RuleEvidence,
        result: RunResult,
        run: PastRun,
        finders: "_Finders",
    ) -> AlertDecision:
        judge, last = self._judge(evidence, run)
        memory = judge.memory_at(run) if run.is_late else judge.memory
        decision = AlertDecision(
            rule_id=evidence.rule.id,
            # The revision that was read: `record_decisions` refuses the decision if the rule was
            # edited meanwhile.
            revision=evidence.rule.revision,
            run=run,
            memory=memory,
            last=last,
            status=judge.memory.state.status,
            seen_seq=evidence.seen_seq,
            is_new=evidence.memory is None and not run.is_late,
            false_pages=rule_spec(evidence.rule).false_pages_per_month or self._false_pages,
        )
        if not run.has_new_data and not run.is_other_data:
            return replace(decision, alone=judge.assess_alone(run))
        assessed = judge.assess(run, memory)
        return replace(decision, assessed=self._detail(evidence, result, assessed, finders))

    def _judge(self, evidence: RuleEvidence, run: PastRun) -> tuple[Judge, Assessment | None]:
        """The rule with what it remembers, and its last assessment if that was found out only now."""
        spec = rule_spec(evidence.rule)
        if evidence.replayed is None:
            judge = Judge(
                spec, evidence.values, memory=evidence.memory, false_pages=self._false_pages
            )
            return judge, None
        stored = with_run(evidence.replayed.values(self._db), run, evidence.values)
        judge = Judge(spec, stored, false_pages=self._false_pages)
        assessed = [each.assessment for each in judge.replay(stored.runs) if each.is_step]
        return judge, assessed[-1] if assessed else None

    def _detail(
        self,
        evidence: RuleEvidence,
        result: RunResult,
        assessed: Assessed,
        finders: "_Finders",
    ) -> Assessed:
        """The condition with what explains it: the changes since the last good run, and the traces."""
        rule, value_spec, step = evidence.rule, assessed.value_spec, assessed.step
        previous = evidence.last_before(step.state.incident if step is not None else None)
        columns = watched_columns(rule, result)[:MAX_METRICS]
        assessment = assessed.assessment
        changed = finders.changes.find(assessment, columns, previous)
        details = assessment.details.model_copy(
            update={
                "value_name": value_spec.name,
                "unit": value_spec.unit,
                "is_share": value_spec.is_share,
                "is_relative": step is not None and assessed.is_relative,
                "changes": tuple(list_differences(changed, MAX_DIFFERENCES))
                if changed
                # The first run that is measured differently has no history, but a cause.
                else result.verdicts.run.measured_differently,
                "what_changed": changed,
                "fallen_slice": _fallen_slice(result, changed, columns),
                "traces": finders.traces.find(rule, assessment, columns, previous),
            }
        )
        return replace(assessed, assessment=replace(assessment, details=details))


def _fallen_slice(
    result: RunResult, changed: WhatChanged | None, columns: Sequence[str]
) -> FallenSlice | None:
    """The slice that fell alone by a watched metric; None where the run was compared with another one."""
    fallen = result.verdicts.run.fallen_slice
    recorded = result.record.what_changed if result.record else None
    if fallen is None or changed is None or recorded is None or fallen.metric not in columns:
        return None
    return fallen if recorded.baseline_run_id == changed.baseline_run_id else None


def _run_of(result: RunResult) -> PastRun:
    """A run that ends now, as it will be stored."""
    place = result.place
    return PastRun(
        seq=result.run_seq,
        id=result.run_id,
        status=RunStatus.COMPLETED,
        validity=result.validity.validity,
        fingerprint=result.fingerprint,
        # The time at which it is stored follows; nothing is decided by this one.
        completed_at=datetime.max.replace(tzinfo=UTC),
        traces=result.trace_count,
        night=result.run_seq if result.night is None else result.night,
        has_new_data=place.has_new_data,
        is_late=place.is_late,
        is_rescored=place.is_rescored,
        same_data_as=place.same_data.run_id if place.same_data else None,
    )


FALSE_PAGES_OPTION = "false_pages_per_month"


def read_false_pages(options: Mapping[str, str]) -> float:
    """The false alarms in 30 runs of one series, for rules that set none, among the options of the service."""
    return float(options.get(FALSE_PAGES_OPTION) or DEFAULT_FALSE_PAGES)
