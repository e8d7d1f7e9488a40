"""Writes to the states of alert rules: what a run, an edit or a person changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import structlog
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from mosaico.alerts import event_queries, incident_queries, incidents, queries
from mosaico.alerts.evaluation.incident_rules import SeriesStep
from mosaico.alerts.evaluation.judging import (
    Assessed,
    explain_run,
    late_change,
    result_of,
)
from mosaico.alerts.evaluation.run_evaluation import AlertDecision
from mosaico.alerts.evaluation.state_memory import memory_of
from mosaico.alerts.incident_closing import Closing, LockedIncident, close
from mosaico.alerts.models import AlertEvent, AlertRule, AlertState
from mosaico.alerts.page_reasons import PageOutcome, SentAlert, reason_of
from mosaico.alerts.publishing import (
    EventNotice,
    publish_after_silence,
    publish_notice,
    store_and_publish,
)
from mosaico.alerts.rules import (
    AlertEventState,
    AlertOutcome,
    AlertStatus,
    Assessment,
    IncidentResolution,
    RuleOutcome,
)
from mosaico.alerts.schemas import rule_spec
from mosaico.alerts.state_changes import (
    advance_state,
    new_event,
    store_new_memory,
    tell_incident,
)
from mosaico.alerts.stored_series import leading_decisions
from mosaico.core.batch_delete import delete_all
from mosaico.core.batches import batched
from mosaico.core.errors import Conflict, Unavailable
from mosaico.run_store.evaluations import store_evaluations
from mosaico.run_store.models import RunEvaluation
from mosaico.run_store.run_result import RunResult

log = structlog.stdlib.get_logger(__name__)

_CREATE_STATES: Final = text(
    """
    INSERT INTO alert_states
        (rule_id, agent_id, run_seq, run_id, state, breaches, clears, explanation, evaluated_at)
    SELECT rule_id, :agent_id, 0, '', :ok, 0, 0, '', :now
    FROM unnest(CAST(:rule_ids AS text[])) AS rule_id
    ON CONFLICT DO NOTHING
    """
)


class NotAcknowledgeable(Conflict):
    """Only a FIRING alert can be acknowledged; acknowledge the first alert of the incident."""


class StaleDecision(Unavailable):
    """Another run of the agent ended, or a rule was edited, after the run was evaluated; the step is repeated."""


def record_decisions(
    session: Session, result: RunResult, decisions: Sequence[AlertDecision], now: datetime
) -> Mapping[str, SeriesStep]:
    """Advance the state of each rule by one run, store what the rule made of it, and publish what changed, as one
    message for each group of recipients with the same alerts. Returns, by series, the step of the rule whose
    verdict is stored with the run.

    A decision is dropped when its rule was disabled or deleted after it was evaluated.
    Locks: the rules (against edits), then their states.
    Raises: `StaleDecision` when another run ended, or a rule was edited, after the evaluation.
    """
    if not result.is_valid:
        # Judging old traces again is not news about the agent.
        if not result.place.is_rescored:
            publish_notice(session, _invalid_run_notice(result), now)
        return {}
    rule_ids = [decision.rule_id for decision in decisions]
    if not rule_ids:
        return {}
    # Rules before states, both in the order of their IDs: every writer takes the locks in this order.
    rules = queries.lock_enabled_rules(session, rule_ids)
    states = _lock_states(session, sorted(rules), result.agent_id, now)
    recorder = _Recorder(session, result, now)
    for decision in decisions:
        rule, state = rules.get(decision.rule_id), states.get(decision.rule_id)
        if rule is not None and state is not None:
            recorder.record(rule, state, decision)
    store_evaluations(session, recorder.evaluations)
    # Before the new events: a recipient learns of an incident before it learns that it has ended.
    publish_after_silence(session, recorder.firing_incidents, rules, now, after_run=result.run_id)
    store_and_publish(session, recorder.events, rules, now, after_run=result.run_id)
    _log_reasons(result, recorder, rules)
    return {
        series: decision.step
        for series, decision in leading_decisions(rules, recorder.applied).items()
        if decision.step is not None
    }


def _log_reasons(result: RunResult, recorder: "_Recorder", rules: Mapping[str, AlertRule]) -> None:
    """One line for each rule that paged nobody about the run, with the reason of `mosaico alerts why`."""
    for evaluation in recorder.evaluations:
        rule = rules[evaluation.rule_id]
        alerts = [
            SentAlert(
                event.silence_id is not None,
                event.notification_id is not None,
                [recipient.notification_id for recipient in event.details.recipients or ()],
            )
            for event in recorder.events
            if event.rule_id == rule.id
        ]
        reason = reason_of(RuleOutcome(evaluation.result), alerts)
        if reason is not PageOutcome.PAGED:
            log.info(
                "alert rule did not page",
                reason=reason,
                rule_id=rule.id,
                rule=rule.name,
                watches=rule.kpi or rule.metric,
                explanation=evaluation.explanation,
                run_id=result.run_id,
                agent_id=result.agent_id,
                benchmark_id=result.benchmark_id,
            )


class _Recorder:
    """Records the decisions about one run, and collects what follows from them."""

    def __init__(self, session: Session, result: RunResult, now: datetime) -> None:
        self._session, self._result, self._now = session, result, now
        self.events: list[AlertEvent] = []
        self.evaluations: list[RunEvaluation] = []
        self.applied: list[AlertDecision] = []
        self.firing_incidents: list[str] = []

    def record(self, rule: AlertRule, state: AlertState, decision: AlertDecision) -> None:
        if rule.revision != decision.revision:
            raise StaleDecision("an alert rule was edited in the meantime; evaluate the run again")
        run, assessed = decision.run, decision.assessed
        if run.is_late and assessed is not None:
            self._record_late(rule, state, decision, assessed)
            return
        if decision.seen_seq is not None and decision.seen_seq != state.run_seq:
            raise StaleDecision("another run ended in the meantime; evaluate the run again")
        if state.run_seq == run.seq:
            return
        if decision.is_new:
            store_new_memory(state, decision.memory, decision.last, self._now)
        if assessed is None:
            self._record_same_data(rule, state, decision)
            return
        if state.incident_id and assessed.assessment.outcome is AlertOutcome.BREACH:
            self.firing_incidents.append(state.incident_id)
        self.applied.append(decision)
        self.events += advance_state(self._session, rule, state, self._result, decision, self._now)
        memory = memory_of(state)
        judgement = result_of(assessed.assessment, memory.state)
        self._keep(rule, state, judgement, assessed.assessment)

    def _record_late(
        self, rule: AlertRule, state: AlertState, decision: AlertDecision, assessed: Assessed
    ) -> None:
        spec = rule_spec(rule)
        change = late_change(spec, decision.memory, decision.run, assessed, self._now)
        if not state.run_seq:
            # The rule has judged no run yet: the state is that of the stored runs, and the next run keeps it.
            state.state = decision.status
        self._keep(rule, state, RuleOutcome.LATE, assessed.assessment)
        if change is not None:
            explanation = self.evaluations[-1].explanation
            late = replace(assessed.assessment, explanation=explanation)
            self.events.append(new_event(rule, None, self._result, late, change, self._now))

    def _record_same_data(
        self, rule: AlertRule, state: AlertState, decision: AlertDecision
    ) -> None:
        same_data = self._result.place.same_data
        is_newest = same_data is not None and same_data.run_seq == state.run_seq
        if state.is_open and is_newest and not state.clears:
            # Nobody was told of an incident that is older than the rule. Scoring again is no occasion.
            if state.incident_id is None and not decision.run.is_rescored:
                self.events += tell_incident(
                    self._session, rule, state, self._result, decision, self._now
                )
            elif state.incident_id is not None:
                self.firing_incidents.append(state.incident_id)
        self._keep(rule, state, RuleOutcome.SAME_DATA, decision.alone)

    def _keep(
        self,
        rule: AlertRule,
        state: AlertState,
        judgement: RuleOutcome,
        assessment: Assessment | None,
    ) -> None:
        place = self._result.place
        status = AlertStatus(state.state)
        alone = assessment.explanation if assessment is not None else ""
        at = place.same_data.completed_at if place.same_data else None
        self.evaluations.append(
            RunEvaluation(
                run_seq=self._result.run_seq,
                rule_id=rule.id,
                rule_name=rule.name,
                rule_revision=rule.revision,
                result=judgement,
                outcome=assessment.outcome if assessment is not None else None,
                state=status,
                value=assessment.value if assessment is not None else None,
                baseline=assessment.baseline if assessment is not None else None,
                explanation=explain_run(
                    judgement, alone, status, same_data_at=at, is_rescored=place.is_rescored
                ),
                same_data_as=place.same_data.run_id if place.same_data else None,
            )
        )


def acknowledge(
    session: Session,
    event_id: str,
    verdict: str,
    by: str | None,
    now: datetime,
    note: str | None = None,
) -> AlertEvent:
    """Store whether an alert was true or noise; a later acknowledgement replaces it. Noise closes
    the incident, and its runs are history again.

    Raises: `AlertNotFound`; `NotAcknowledgeable` for an alert that is not FIRING.
    """
    event = event_queries.get_event(session, event_id)
    if event.state != AlertEventState.FIRING:
        raise NotAcknowledgeable(_not_acknowledgeable_detail(event))
    incidents.acknowledge(session, event.id, verdict, by, now, note)
    return event


def reset_states(session: Session, rule: AlertRule, reason: str, now: datetime) -> None:
    """Resolve the open incidents of a rule, and delete its states so that it starts anew."""
    states = select(AlertState).where(AlertState.rule_id == rule.id)
    # Locked in one order, like everywhere: a run that ends now waits and then finds no state.
    for state in session.scalars(states.order_by(AlertState.agent_id).with_for_update()):
        if state.incident_id is not None:
            incident = incident_queries.get_incident(session, state.incident_id, for_update=True)
            closing = Closing(IncidentResolution.RULE_CHANGED, reason)
            close(session, LockedIncident(incident, state, rule), closing, now)
    delete_all(session, AlertState, AlertState.rule_id == rule.id)


def _not_acknowledgeable_detail(event: AlertEvent) -> str:
    remedy = (
        f"acknowledge {event.incident_id}, the first alert of the incident"
        if event.incident_id
        else "GET /api/v1/alerts?state=FIRING lists the firing alerts"
    )
    return f"this alert is {event.state}, and only a FIRING alert can be acknowledged; {remedy}"


def _lock_states(
    session: Session, rule_ids: Sequence[str], agent_id: str, now: datetime
) -> dict[str, AlertState]:
    """The states of sorted rules for an agent, by rule, locked; created for rules without one.

    The row is inserted before it is locked: a first run has none, and two runs that end at the same
    time must not both start from an empty state.
    """
    initial = {"agent_id": agent_id, "ok": AlertStatus.OK, "now": now}
    states: dict[str, AlertState] = {}
    for batch in batched(rule_ids):
        session.execute(_CREATE_STATES, {"rule_ids": list(batch), **initial})
        states |= queries.lock_states(session, batch, agent_id)
    return states


def _invalid_run_notice(result: RunResult) -> EventNotice:
    reasons = result.validity.reasons or ["too few traces were measured"]
    return EventNotice(
        state=AlertEventState.RUN_INVALID,
        dedup_key=f"run-invalid/{result.run_id}",
        name="run invalid",
        benchmark_id=result.benchmark_id,
        agent_id=result.agent_id,
        run_id=result.run_id,
        run_seq=result.run_seq,
        title_note=reasons[0],
        explanation=f"The numbers of this run cannot be trusted: {'; '.join(reasons)}."
        " The states of the alert rules do not change.",
    )
