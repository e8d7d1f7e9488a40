"""HTTP routes of alert rules, alerts and silences."""

from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.orm import Session

from mosaico.access.deps import ADMIN, READ, RUN, get_caller
from mosaico.access.idempotency import Idempotent
from mosaico.access.queries import revision_views
from mosaico.alerts import (
    assignment,
    event_queries,
    incident_queries,
    queries,
    rule_tests,
    service,
    silence_queries,
)
from mosaico.alerts import incidents as incident_service
from mosaico.alerts import silences as silence_service
from mosaico.alerts.backtest_schemas import BacktestRequest, BacktestView, RuleTestView
from mosaico.alerts.event_queries import AlertFilter
from mosaico.alerts.incident_queries import IncidentFilter
from mosaico.alerts.judgement_undo import withdraw_judgement as undo_judgement
from mosaico.alerts.queries import RuleFilter
from mosaico.alerts.rule_service import create_rule, delete_rule, update_rule
from mosaico.alerts.schemas import (
    Acknowledgement,
    AlertConfigBody,
    AlertConfigCreate,
    AlertConfigPatch,
    AlertConfigView,
    AlertView,
    IncidentAssignment,
    IncidentDecision,
    IncidentView,
    SilenceCreate,
    SilencePatch,
    SilenceView,
)
from mosaico.alerts.views import (
    event_views,
    incident_view,
    incident_views,
    rule_view,
    rule_views,
    silence_view,
    silence_views,
)
from mosaico.core.keyset import PageQuery, PageRows
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.resources import Resources
from mosaico.core.revisions import RevisionView
from mosaico.core.schemas import Page
from mosaico.core.web.csv_files import CSV_RESPONSE, csv_file, iter_views
from mosaico.core.web.deps import Res
from mosaico.core.web.etag import IfMatch, IfNoneMatch, RevisionCheck
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router

alert_configs = Router(prefix="/alert-configs", tags=["alerts"])
alerts = Router(prefix="/alerts", tags=["alerts"])
incidents = Router(prefix="/incidents", tags=["alerts"])
silences = Router(prefix="/silences", tags=["alerts"])

RuleId = Annotated[str, Path(alias="alertConfigId")]
IncidentId = Annotated[str, Path(alias="incidentId")]
AlertId = Annotated[str, Path(alias="alertId")]
SilenceId = Annotated[str, Path(alias="silenceId")]
# They are no cells of a table.
DOCUMENTS_OF_ALERTS = frozenset({"details", "contributing_traces"})
SORT = Query(description="Sort key; the prefix `-` sorts in descending order.")


@alert_configs.post("", status_code=201, response_model=AlertConfigView, dependencies=ADMIN)
def create_alert_config(body: AlertConfigCreate, once: Idempotent, res: Res) -> Response:
    """Create an alert rule. It evaluates every run that completes from now on."""
    return once(
        body,
        lambda session: body.confirm_created(
            rule_view(session, create_rule(session, body, res.secrets), res)
        ),
    )


@alert_configs.get("", dependencies=READ)
def list_alert_configs(
    res: Res,
    page: PageParams,
    rule_filter: Annotated[RuleFilter, Query()],
) -> Page[AlertConfigView]:
    """List alert rules with their states, newest first. A repeated filter lists those with any of
    its values.
    """
    with res.db.read() as session:
        rows = queries.list_rules(session, page, rule_filter)
        return Page(items=rule_views(session, rows.rows, res), next_cursor=rows.next_cursor)


@alert_configs.post("/backtest", dependencies=READ)
def backtest_alert_config(body: BacktestRequest, res: Res) -> BacktestView:
    """Replay a rule over stored runs: the alerts it would have sent and its false alarms per month."""
    return rule_tests.backtest_rule(body, res)


@alert_configs.get("/{alertConfigId}", dependencies=READ)
def get_alert_config(rule_id: RuleId, res: Res, tagged: IfNoneMatch) -> AlertConfigView:
    with res.db.read() as session:
        return tagged(rule_view(session, queries.get_rule(session, rule_id), res))


@alert_configs.get("/{alertConfigId}/revisions", dependencies=READ)
def list_alert_config_revisions(rule_id: RuleId, res: Res, page: PageParams) -> Page[RevisionView]:
    """List the edits of an alert rule with their authors, newest first."""
    with res.db.read() as session:
        queries.get_rule(session, rule_id)
        rows = queries.list_revisions(session, rule_id, page)
        views = revision_views(session, RevisionView, rows.rows)
        return Page(items=views, next_cursor=rows.next_cursor)


@alert_configs.patch("/{alertConfigId}", dependencies=ADMIN, responses=CONFLICT)
def change_alert_config(
    rule_id: RuleId, body: AlertConfigPatch, res: Res, match: IfMatch
) -> AlertConfigView:
    """Change the given fields. A change of the condition resolves open incidents of the rule."""
    return _update(rule_id, body, res, match)


@alert_configs.put("/{alertConfigId}", dependencies=ADMIN, responses=CONFLICT)
def replace_alert_config(
    rule_id: RuleId, body: AlertConfigBody, res: Res, match: IfMatch
) -> AlertConfigView:
    """Replace all fields; a field that is left out gets its default."""
    return _update(rule_id, body, res, match)


@alert_configs.delete("/{alertConfigId}", status_code=204, dependencies=ADMIN)
def delete_alert_config(rule_id: RuleId, res: Res, match: IfMatch) -> None:
    """Delete a rule. Its open incidents are resolved, its alerts stay."""
    with res.db.begin() as session:
        match(queries.get_rule(session, rule_id, for_update=True).revision)
        delete_rule(session, rule_id, res.clock())


@alert_configs.post("/{alertConfigId}/test", dependencies=RUN)
def test_alert_config(rule_id: RuleId, res: Res) -> RuleTestView:
    """Assess the newest run of each agent, and send a test message to the recipients of the rule."""
    return rule_tests.try_rule(rule_id, res)


@alerts.get("", dependencies=READ)
def list_alerts(
    res: Res,
    page: PageParams,
    alert_filter: Annotated[AlertFilter, Query()],
    sort: Annotated[event_queries.AlertOrder, SORT] = event_queries.DEFAULT_SORT,
) -> Page[AlertView]:
    """List alerts, newest first unless sorted. A repeated filter lists those with any of its values."""
    with res.db.read() as session:
        rows = event_queries.list_events(session, page, alert_filter, sort)
        return Page(items=event_views(session, rows.rows), next_cursor=rows.next_cursor)


@alerts.get(".csv", response_class=StreamingResponse, responses=CSV_RESPONSE, dependencies=READ)
def export_alerts(
    res: Res,
    alert_filter: Annotated[AlertFilter, Query()],
    sort: Annotated[event_queries.AlertOrder, SORT] = event_queries.DEFAULT_SORT,
) -> StreamingResponse:
    """Alerts as CSV, with the filters and orders of the list; at most 10,000. `explanation` says what was found."""

    def read_page(session: Session, page: PageQuery) -> PageRows[AlertView]:
        rows = event_queries.list_events(session, page, alert_filter, sort)
        return rows.with_rows(event_views(session, rows.rows))

    lines = iter_views(res.db, AlertView, read_page, without=DOCUMENTS_OF_ALERTS)
    return csv_file(lines, "alerts.csv")


@alerts.get("/{alertId}", dependencies=READ)
def get_alert(alert_id: AlertId, res: Res) -> AlertView:
    with res.db.read() as session:
        return event_views(session, [event_queries.get_event(session, alert_id)])[0]


@alerts.post("/{alertId}/ack", dependencies=RUN, responses=CONFLICT)
def acknowledge_alert(
    alert_id: AlertId, body: Acknowledgement, request: Request, res: Res
) -> AlertView:
    """Acknowledge an alert as true or noise. Runs of true incidents are excluded from the baseline."""
    by = get_caller(request).key_id
    with res.db.begin() as session:
        event = service.acknowledge(session, alert_id, body.verdict, by, res.clock(), body.note)
        return event_views(session, [event])[0]


@incidents.get("", dependencies=READ)
def list_incidents(
    res: Res,
    page: PageParams,
    incident_filter: Annotated[IncidentFilter, Query()],
    sort: Annotated[incident_queries.IncidentOrder, SORT] = incident_queries.DEFAULT_SORT,
) -> Page[IncidentView]:
    """List incidents, newest first unless sorted. A repeated filter lists those with any of its values."""
    with res.db.read() as session:
        rows = incident_queries.list_incidents(session, page, incident_filter, sort)
        return Page(items=incident_views(session, rows.rows), next_cursor=rows.next_cursor)


@incidents.get("/{incidentId}", dependencies=READ)
def get_incident(incident_id: IncidentId, res: Res) -> IncidentView:
    """Get an incident: its runs, its level before and now, and how it ended."""
    with res.db.read() as session:
        return incident_view(session, incident_queries.get_incident(session, incident_id))


@incidents.post("/{incidentId}/acknowledge", dependencies=RUN)
def acknowledge_incident(
    incident_id: IncidentId, request: Request, res: Res, body: IncidentDecision | None = None
) -> IncidentView:
    """Acknowledge an incident as a real change. An open one stays open until the runs recover; of one that was
    noise, the bad runs leave the history and the baselines again.
    """
    return _acknowledge_incident(incident_id, "true", request, res, body)


@incidents.post("/{incidentId}/noise", dependencies=RUN)
def dismiss_incident(
    incident_id: IncidentId, request: Request, res: Res, body: IncidentDecision | None = None
) -> IncidentView:
    """Acknowledge an incident as noise: it is closed, and its runs count as ordinary runs again.

    `acknowledge` takes the runs out of the history again; the incident stays closed. An incident of a fixed threshold
    stays open until the value is within it again.
    """
    return _acknowledge_incident(incident_id, "noise", request, res, body)


@incidents.post("/{incidentId}/undo", dependencies=RUN, responses=CONFLICT)
def withdraw_judgement(incident_id: IncidentId, res: Res) -> IncidentView:
    """Take back what somebody said of an incident. One that was closed by it is open again, until the next run of the
    agent is judged.
    """
    with res.db.begin() as session:
        return incident_view(session, undo_judgement(session, incident_id))


@incidents.post("/{incidentId}/accept", dependencies=ADMIN, responses=CONFLICT)
def accept_incident(
    incident_id: IncidentId, body: IncidentDecision, request: Request, res: Res
) -> IncidentView:
    """Accept the new level: the incident is closed, and later runs are compared with its runs."""
    by = get_caller(request).key_id
    with res.db.begin() as session:
        incident = incident_service.accept(session, incident_id, by, body.note, res.clock())
        return incident_view(session, incident)


@incidents.post("/{incidentId}/assign", dependencies=RUN)
def assign_incident(
    incident_id: IncidentId, body: IncidentAssignment, request: Request, res: Res
) -> IncidentView:
    """Assign an incident to a person, who then looks after it. The person must see the benchmark."""
    by = get_caller(request).key_id
    with res.db.begin() as session:
        incident = assignment.assign(session, incident_id, body.assignee, by, res.clock())
        return incident_view(session, incident)


@incidents.post("/{incidentId}/unassign", dependencies=RUN)
def unassign_incident(incident_id: IncidentId, request: Request, res: Res) -> IncidentView:
    """Assign an incident to nobody."""
    by = get_caller(request).key_id
    with res.db.begin() as session:
        return incident_view(session, assignment.unassign(session, incident_id, by, res.clock()))


@silences.post("", status_code=201, response_model=SilenceView, dependencies=RUN)
def create_silence(body: SilenceCreate, request: Request, once: Idempotent, res: Res) -> Response:
    """Create a silence: matching alerts are recorded but not sent until it ends."""
    by = get_caller(request).key_id

    def create(session: Session) -> SilenceView:
        silence = silence_service.create_silence(session, body, by, res.clock())
        return body.confirm_created(silence_view(session, silence))

    return once(body, create)


@silences.get("", dependencies=READ)
def list_silences(
    res: Res,
    page: PageParams,
    silence_filter: Annotated[silence_queries.SilenceFilter, Query()],
) -> Page[SilenceView]:
    """List silences, newest first."""
    with res.db.read() as session:
        rows = silence_queries.list_silences(session, page, silence_filter, res.clock())
        return Page(items=silence_views(session, rows.rows), next_cursor=rows.next_cursor)


@silences.get("/{silenceId}", dependencies=READ)
def get_silence(silence_id: SilenceId, res: Res) -> SilenceView:
    with res.db.read() as session:
        return silence_view(session, silence_queries.get_silence(session, silence_id))


@silences.patch("/{silenceId}", dependencies=RUN, responses=CONFLICT)
def change_silence(silence_id: SilenceId, body: SilencePatch, res: Res) -> SilenceView:
    """Change the given fields. A matcher that is not given stays."""
    with res.db.begin() as session:
        silence = silence_queries.get_silence(session, silence_id, for_update=True)
        edit = body.compare_with_view(silence_view(session, silence))
        silence = silence_service.update_silence(session, silence_id, edit, res.clock())
        return silence_view(session, silence)


@silences.delete("/{silenceId}", status_code=204, dependencies=RUN)
def delete_silence(silence_id: SilenceId, res: Res) -> None:
    """End a silence now."""
    with res.db.begin() as session:
        silence_service.delete_silence(session, silence_id)


def _acknowledge_incident(
    incident_id: str, verdict: str, request: Request, res: Resources, body: IncidentDecision | None
) -> IncidentView:
    by, note = get_caller(request).key_id, body.note if body else None
    with res.db.begin() as session:
        incident = incident_service.acknowledge(
            session, incident_id, verdict, by, res.clock(), note
        )
        return incident_view(session, incident)


def _update(
    rule_id: str, body: AlertConfigBody, res: Resources, match: RevisionCheck
) -> AlertConfigView:
    with res.db.begin() as session:
        rule = queries.get_rule(session, rule_id, for_update=True)
        match(rule.revision)
        edit = body.compare_with_view(rule_view(session, rule, res))
        rule = update_rule(session, rule_id, edit, res.secrets, res.clock())
        return match.etag(rule_view(session, rule, res))
