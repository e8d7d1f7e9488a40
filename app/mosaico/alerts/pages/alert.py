"""Pages of alerts: the history, and one alert with its value, what was expected, the rule, and every delivery."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.access.deps import READ, RUN, get_caller
from mosaico.alerts import event_queries, inbox_view, service
from mosaico.alerts.alert_recipients import messages_of
from mosaico.alerts.details import AlertDetails
from mosaico.alerts.evaluation.run_evaluation import read_false_pages
from mosaico.alerts.event_queries import AlertFilter
from mosaico.alerts.messages import headline_of
from mosaico.alerts.models import AlertEvent
from mosaico.alerts.natural_scale import EvidenceText
from mosaico.alerts.pages.inbox import read_acknowledgement, silence_row
from mosaico.alerts.pages.value_chart import draw_alert, find_watched, values_in_api
from mosaico.alerts.publishing import DisplayNameReader
from mosaico.alerts.rule_records import read_false_alarms
from mosaico.alerts.rules import AlertEventState
from mosaico.benchmarks.queries import list_owner_names
from mosaico.comparison.attribute_text import describe_fallen_slice
from mosaico.comparison.change_view import explain_missing_changes, view_changes
from mosaico.core.keyset import MAX_LIMIT
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.page_filters import PageFilters, SentFilters
from mosaico.core.web.forms.sent_fields import SentForm
from mosaico.core.web.page_paths import (
    alert_page_path,
    incident_page_path,
    path_of,
    rule_page_path,
    schedule_page_path,
    trace_page_path,
)
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
from mosaico.kpis.number_text import FigureFormat
from mosaico.notifications.views import list_delivery_rows
from mosaico.run_store.attribute_queries import read_recorded_changes
from mosaico.run_store.models import BenchmarkRun

router = Router()

AlertFilters = Annotated[
    SentFilters[AlertFilter],
    Depends(PageFilters(AlertFilter, "text agent benchmark severity state from to")),
]
AlertId = Annotated[str, Path(alias="alertId")]


@router.get("/alert-history", dependencies=READ)
def show_alerts(
    request: Request,
    res: Res,
    query: ListQuery,
    filters: AlertFilters,
    sort: event_queries.AlertOrder = event_queries.DEFAULT_SORT,
) -> Response:
    """Alerts, newest first unless sorted."""
    with res.db.read() as session:
        page = event_queries.list_events(session, query, filters.of_list, sort)
        names = DisplayNameReader(session)
        rows = [(event, names(event), alert_page_path(event.id)) for event in page.rows]
        choices = list_owner_names(session)
    return render_page(
        request,
        "alerts.html",
        title="Alert history",
        nav="/alerts",
        api=list_in_api(request, "/alerts", sort=sort, **filters.in_api),
        csv=build_url("/api/v1/alerts.csv", filters.in_api, sort=sort),
        filters=filters.fields,
        names=choices,
        rows=rows,
        sort=sort,
        next_cursor=page.next_cursor,
    )


@router.get("/alerts/events/{alertId}", dependencies=READ)
def show_alert(request: Request, alert_id: AlertId, res: Res) -> Response:
    """Show one alert: the reason why it fired, and its deliveries."""
    with res.db.read() as session:
        event = event_queries.get_event(session, alert_id)
        view = _view(session, event, res.clock())
        deliveries = list_delivery_rows(session, messages_of(event))
        false_alarms = read_false_alarms(
            session, [event.rule_id], res.clock(), read_false_pages(res.options)
        ).get(event.rule_id or "")
        chart = draw_alert(session, event, reader_zone(request))
        parts = _parts_in_api(session, event)
    return render_page(
        request,
        "alert.html",
        title=f"{view['agent']}: {view['headline']}",
        nav="/alerts",
        api=f"/alerts{path_of(alert_id)}",
        api_parts=parts,
        steps=[Crumb("Alert rules", "/alerts")]
        + ([Crumb(event.name, view["rule_url"])] if view["rule_url"] else []),
        event=event,
        deliveries=deliveries,
        chart=chart,
        false_alarms=false_alarms,
        can_acknowledge=event.state == AlertEventState.FIRING,
        **view,
    )


@router.post("/alerts/events/{alertId}/ack", dependencies=RUN)
def acknowledge_alert(alert_id: AlertId, request: Request, form: SentForm, res: Res) -> Response:
    """Say whether an alert was true or noise, with a note."""
    answer, by = read_acknowledgement(form), get_caller(request).key_id
    with res.db.begin() as session:
        service.acknowledge(session, alert_id, answer.verdict, by, res.clock(), answer.note)
    return see_other(alert_page_path(alert_id))


def _parts_in_api(session: Session, event: AlertEvent) -> dict[str, str]:
    """What the page shows beside the alert."""
    parts = values_in_api(find_watched(session, event), event, event.created_at)
    if event.rule_id:
        parts["rule"] = path_of("alert-configs", event.rule_id)
    if event.run_id:
        parts["run"] = path_of("benchmark-runs", event.run_id)
        parts["attributes"] = path_of("benchmark-runs", event.run_id, "attributes")
    for number, message_id in enumerate(messages_of(event), 1):
        name = "deliveries" if number == 1 else f"deliveries {number}"
        parts[name] = build_url("/deliveries", notificationId=message_id, limit=MAX_LIMIT)
    return parts


def _view(session: Session, event: AlertEvent, now: datetime) -> dict[str, Any]:
    names = DisplayNameReader(session)(event)
    run = session.scalar(select(BenchmarkRun).where(BenchmarkRun.id == event.run_id))
    details = event.details
    # An alert of an earlier version has none of its own.
    changed = details.what_changed or (
        read_recorded_changes(session, [run.id]).get(run.id) if run else None
    )
    figures = FigureFormat(details.unit, details.is_share)
    return {
        "agent": names.agent,
        "headline": headline_of(event, event.details.title_note),
        "benchmark": names.benchmark,
        "run": run,
        "traces": [
            (trace, trace_page_path(run.id, trace.trace_id) if run else None)
            for trace in details.traces
        ],
        "rule_url": rule_page_path(event.rule_id) if event.rule_id else None,
        "schedule_url": details.schedule_id and schedule_page_path(details.schedule_id),
        "incident_url": incident_page_path(event.incident_id) if event.incident_id else None,
        "value": None if event.value is None else figures.write(event.value),
        "expected": _expected(event.baseline, details, figures),
        "change": _change(details),
        "fallen_slice": details.fallen_slice and describe_fallen_slice(details.fallen_slice),
        "changes": changed and view_changes(changed),
        "no_changes": explain_missing_changes(run) if run else "the alert is about no run",
        "silences": [
            silence_row(session, silence)
            for silence in inbox_view.list_silences_of_alert(session, event, now)
        ],
    }


def _expected(baseline: float | None, details: AlertDetails, figures: FigureFormat) -> str | None:
    """The range or the level that the value was compared with."""
    if details.anomaly is not None:
        ends = figures.write_range(details.anomaly.expected_low, details.anomaly.expected_high)
        return f"{ends}, from {details.anomaly.history} runs"
    return None if baseline is None else figures.write(baseline)


def _change(details: AlertDetails) -> str | None:
    """The change with its interval; None where the rule computes none."""
    evidence = details.runs
    text = EvidenceText.of(evidence, is_share=details.is_share, is_relative=details.is_relative)
    if evidence is None or text is None:
        return None
    return f"{text.change} (likely {text.low} to {text.high}) over {evidence.width or 1} runs"
