"""Alert rules, alerts and incidents as the API returns them."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy.orm import Session

from mosaico.access.queries import list_caller_names
from mosaico.alerts import queries
from mosaico.alerts.evaluation.run_evaluation import read_false_pages
from mosaico.alerts.incident_queries import list_assignees
from mosaico.alerts.models import AlertEvent, AlertRule, AlertSilence, Incident
from mosaico.alerts.queries import AcknowledgedCount
from mosaico.alerts.rule_records import RECORD_DAYS, RuleRecord, false_pages_of, read_records
from mosaico.alerts.schemas import (
    AlertConfigView,
    AlertPrecisionView,
    AlertRecordView,
    AlertStateView,
    AlertView,
    IncidentView,
    SilenceView,
)
from mosaico.core.resources import Resources
from mosaico.core.schemas import view_of_row
from mosaico.notifications.models import Endpoint
from mosaico.notifications.queries import get_endpoints_by_id

# A rule is proposed for review below this precision, once this many alerts were acknowledged.
REVIEW_PRECISION = 0.5
MIN_ACKNOWLEDGED = 5


def rule_views(
    session: Session, rules: Iterable[AlertRule], res: Resources
) -> list[AlertConfigView]:
    """Rules with their states, redacted recipients, their limits of false alarms, and the record and precision of
    their alerts.
    """
    rules = list(rules)
    rule_ids = [rule.id for rule in rules]
    states = queries.states_by_rule(session, rule_ids)
    counts = queries.count_acknowledged(session, rule_ids)
    records = read_records(session, rule_ids, res.clock())
    default = read_false_pages(res.options)
    endpoint_ids = {endpoint_id for rule in rules for endpoint_id in rule.endpoints}
    endpoints = get_endpoints_by_id(session, endpoint_ids)
    return [
        view_of_row(
            AlertConfigView,
            rule,
            recipients=_recipients(rule, endpoints),
            states=[view_of_row(AlertStateView, state) for state in states[rule.id]],
            promised_false_pages=false_pages_of(rule, default),
            record=_record(records.get(rule.id, RuleRecord())),
            precision=_precision(counts.get(rule.id, AcknowledgedCount())),
        )
        for rule in rules
    ]


def rule_view(session: Session, rule: AlertRule, res: Resources) -> AlertConfigView:
    [view] = rule_views(session, [rule], res)
    return view


def event_views(session: Session, events: Sequence[AlertEvent]) -> list[AlertView]:
    """Alerts with the names of those who acknowledged them, and to whom their incidents are assigned."""
    names = list_caller_names(session, {event.acknowledged_by for event in events})
    assignees = list_assignees(session, {event.incident_id for event in events})
    return [
        view_of_row(
            AlertView,
            event,
            alert_config_id=event.rule_id,
            run_url=f"/api/v1/benchmark-runs/{event.run_id}" if event.run_id else None,
            contributing_traces=event.details.traces,
            acknowledged_by_name=names.get(event.acknowledged_by or ""),
            assignee_name=assignees.get(event.incident_id or ""),
        )
        for event in events
    ]


def incident_views(session: Session, incidents: Sequence[Incident]) -> list[IncidentView]:
    """Incidents with the names of those who acknowledged and closed them, and who look after them."""
    names = list_caller_names(
        session,
        {
            caller
            for incident in incidents
            for caller in (
                incident.acknowledged_by,
                incident.resolved_by,
                incident.assignee_id,
                incident.assigned_by,
            )
        },
    )
    return [
        view_of_row(
            IncidentView,
            incident,
            alert_id=incident.id,
            alert_config_id=incident.rule_id,
            runs=len(incident.run_seqs),
            acknowledged_by_name=names.get(incident.acknowledged_by or ""),
            resolved_by_name=names.get(incident.resolved_by or ""),
            assignee_name=names.get(incident.assignee_id or ""),
            assigned_by_name=names.get(incident.assigned_by or ""),
        )
        for incident in incidents
    ]


def incident_view(session: Session, incident: Incident) -> IncidentView:
    return incident_views(session, [incident])[0]


def silence_views(session: Session, silences: Sequence[AlertSilence]) -> list[SilenceView]:
    """Silences with the names of those who made them."""
    names = list_caller_names(session, {silence.created_by for silence in silences})
    return [
        view_of_row(SilenceView, silence, created_by_name=names.get(silence.created_by or ""))
        for silence in silences
    ]


def silence_view(session: Session, silence: AlertSilence) -> SilenceView:
    return silence_views(session, [silence])[0]


def _recipients(rule: AlertRule, endpoints: Mapping[str, Endpoint]) -> list[str]:
    """The recipients of a rule, redacted."""
    recipients = [endpoints[id_].recipient for id_ in rule.endpoints if id_ in endpoints]
    return list(dict.fromkeys(recipients))


def _record(record: RuleRecord) -> AlertRecordView:
    return AlertRecordView(
        days=RECORD_DAYS, fired=record.fired, true=record.true, noise=record.noise
    )


def _precision(count: AcknowledgedCount) -> AlertPrecisionView:
    acknowledged = count.true + count.noise
    precision = count.true / acknowledged if acknowledged else None
    return AlertPrecisionView(
        true=count.true,
        noise=count.noise,
        precision=precision,
        review=precision is not None
        and acknowledged >= MIN_ACKNOWLEDGED
        and precision < REVIEW_PRECISION,
    )
