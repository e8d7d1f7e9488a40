"""Pages of incidents: the list, one incident with its chart, and what people say about it."""

from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import ADMIN, READ, RUN, get_caller
from mosaico.access.queries import list_caller_names
from mosaico.alerts import assignment, event_queries, incident_queries, incidents, service
from mosaico.alerts.event_queries import AlertFilter
from mosaico.alerts.incident_queries import IncidentFilter
from mosaico.alerts.judgement_undo import withdraw_judgement
from mosaico.alerts.models import AlertEvent, Incident
from mosaico.alerts.pages.inbox import read_acknowledgement
from mosaico.alerts.pages.value_chart import draw_incident, incident_figures, values_in_api
from mosaico.alerts.publishing import DisplayNameReader
from mosaico.alerts.rules import Condition, IncidentState
from mosaico.alerts.schemas import IncidentAssignment, IncidentDecision
from mosaico.benchmarks.queries import list_owner_names
from mosaico.core.errors import Invalid
from mosaico.core.keyset import PageQuery, find_whole_list
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.page_filters import PageFilters, SentFilters
from mosaico.core.web.forms.sent_fields import FormFields, SentForm, check_form, local_path
from mosaico.core.web.page_paths import alert_page_path, incident_page_path, path_of, rule_page_path
from mosaico.core.web.pages import (
    Crumb,
    build_url,
    list_in_api,
    reader_zone,
    render_page,
    see_other,
)
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router
from mosaico.notes.queries import list_shown_notes

router = Router()

SHOWN_ALERTS = 50
IncidentFilters = Annotated[
    SentFilters[IncidentFilter],
    Depends(PageFilters(IncidentFilter, "text agent benchmark severity state from to")),
]
IncidentId = Annotated[str, Path(alias="incidentId")]


@router.get("/incidents", dependencies=READ)
def show_incidents(
    request: Request,
    res: Res,
    query: ListQuery,
    filters: IncidentFilters,
    sort: incident_queries.IncidentOrder = incident_queries.DEFAULT_SORT,
) -> Response:
    """Incidents, newest first unless sorted."""
    with res.db.read() as session:
        page = incident_queries.list_incidents(session, query, filters.of_list, sort)
        rows = [incident_row(session, incident) for incident in page.rows]
        names = list_owner_names(session)
    return render_page(
        request,
        "incidents.html",
        title="Incidents",
        nav="/alerts",
        api=list_in_api(request, "/incidents", sort=sort, **filters.in_api),
        filters=filters.fields,
        names=names,
        rows=rows,
        sort=sort,
        next_cursor=page.next_cursor,
    )


@router.get("/incidents/{incidentId}", dependencies=READ)
def show_incident(request: Request, incident_id: IncidentId, res: Res) -> Response:
    """Show one incident: its level before and now, its runs, its alerts, and its resolution."""
    with res.db.read() as session:
        incident = incident_queries.get_incident(session, incident_id)
        row = incident_row(session, incident)
        events = event_queries.list_events(
            session, PageQuery(SHOWN_ALERTS), AlertFilter(), incident_id=incident_id
        )
        all_alerts = find_whole_list(
            session,
            events,
            build_url("/alert-history", rule=incident.rule_id, agent=incident.agent_id),
            AlertEvent.incident_id,
            incident_id,
        )
        chart = draw_incident(session, incident, reader_zone(request))
        people = list_caller_names(
            session,
            {
                incident.acknowledged_by,
                incident.resolved_by,
                incident.assignee_id,
                incident.assigned_by,
            },
        )
        assignable = assignment.list_assignable(session, incident.benchmark_id)
        notes = list_shown_notes(session, get_caller(request), incident_id=incident_id)
    return render_page(
        request,
        "incident.html",
        title=f"{row['agent']}: {row['headline']}",
        nav="/alerts",
        api=f"/incidents{path_of(incident_id)}",
        api_parts={
            "notes": build_url("/notes", incidentId=incident_id),
            # Of the rule and the agent: those of the incident are among them.
            "alerts": build_url(
                "/alerts", alertConfigId=incident.rule_id, agentId=incident.agent_id
            ),
            **values_in_api(incident, incident, incident.started_at),
        },
        steps=[Crumb("Alert rules", "/alerts"), Crumb("Incidents", "/incidents")],
        incident=incident,
        row=row,
        chart=chart,
        people=people,
        assignable=assignable,
        notes=notes,
        alerts=[{"event": event, "url": alert_page_path(event.id)} for event in events.rows],
        all_alerts=all_alerts,
        has_level=Condition(incident.condition).excludes_incidents,
    )


@router.post("/incidents/judge", dependencies=RUN)
def judge_incidents(request: Request, form: SentForm, res: Res) -> Response:
    """Judge the incidents of a change as true or noise, with a note."""
    answer, by = read_acknowledgement(form), get_caller(request).key_id
    with res.db.begin() as session:
        # In one order, so that two readers who judge the same incidents wait and do not block.
        for incident_id in _sent_incidents(request, form):
            service.acknowledge(session, incident_id, answer.verdict, by, res.clock(), answer.note)
    return see_other(local_path(form.text("next", "/")))


@router.post("/incidents/undo", dependencies=RUN)
def withdraw_judgements(request: Request, form: SentForm, res: Res) -> Response:
    """Take back what was said of the incidents of a change."""
    with res.db.begin() as session:
        for incident_id in _sent_incidents(request, form):
            withdraw_judgement(session, incident_id)
    return see_other(local_path(form.text("next", "/")))


def _sent_incidents(request: Request, form: FormFields) -> list[str]:
    """The IDs of the sent incidents, sorted, which the audit log names. Raises: `Invalid` without any."""
    incident_ids = sorted({*form.texts("incident")})
    if not incident_ids:
        raise Invalid("no incident is named; open the page again")
    request.state.changed = [path_of("incidents", incident_id) for incident_id in incident_ids]
    return incident_ids


@router.post("/incidents/{incidentId}/acknowledge", dependencies=RUN)
def acknowledge_incident(
    incident_id: IncidentId, request: Request, form: SentForm, res: Res
) -> Response:
    """Say whether an incident was true or noise, with a note."""
    answer, by = read_acknowledgement(form), get_caller(request).key_id
    with res.db.begin() as session:
        incidents.acknowledge(session, incident_id, answer.verdict, by, res.clock(), answer.note)
    return _to_incident(incident_id)


@router.post("/incidents/{incidentId}/assign", dependencies=RUN)
def assign_incident(
    incident_id: IncidentId, request: Request, form: SentForm, res: Res
) -> Response:
    """Assign an incident to a person."""
    checked = check_form(IncidentAssignment, {"assignee": form.text("assignee")})
    if checked.body is None:
        raise Invalid(f"the person {checked.errors['assignee']}")
    by = get_caller(request).key_id
    with res.db.begin() as session:
        assignment.assign(session, incident_id, checked.body.assignee, by, res.clock())
    return _to_incident(incident_id)


@router.post("/incidents/{incidentId}/unassign", dependencies=RUN)
def unassign_incident(incident_id: IncidentId, request: Request, res: Res) -> Response:
    """Assign an incident to nobody."""
    by = get_caller(request).key_id
    with res.db.begin() as session:
        assignment.unassign(session, incident_id, by, res.clock())
    return _to_incident(incident_id)


@router.post("/incidents/{incidentId}/accept", dependencies=ADMIN)
def accept_incident(
    incident_id: IncidentId, request: Request, form: SentForm, res: Res
) -> Response:
    """Accept the level of an incident."""
    checked = check_form(IncidentDecision, {"note": form.text("note") or None})
    if checked.body is None:
        raise Invalid(f"the note {checked.errors['note']}")
    by = get_caller(request).key_id
    with res.db.begin() as session:
        incidents.accept(session, incident_id, by, checked.body.note, res.clock())
    return _to_incident(incident_id)


def incident_row(session: Session, incident: Incident) -> dict[str, Any]:
    """An incident with display names, for lists and its page."""
    names = DisplayNameReader(session).names(incident.benchmark_id, incident.agent_id)
    before, now = incident_figures(incident).write_pair(incident.baseline, incident.value)
    change = f" {before} → {now}" if before and now else ""
    return {
        "id": incident.id,
        "url": incident_page_path(incident.id),
        "rule_url": rule_page_path(incident.rule_id) if incident.rule_id else None,
        "run_url": path_of("runs", incident.opened_run_id),
        "agent": names.agent,
        "headline": f"{incident.value_name}{change}",
        "benchmark": names.benchmark,
        "incident": incident,
        "is_open": incident.state == IncidentState.OPEN,
        "before": before,
        "now": now,
    }


def _to_incident(incident_id: str) -> Response:
    return see_other(incident_page_path(incident_id))
