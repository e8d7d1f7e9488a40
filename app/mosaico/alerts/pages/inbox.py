"""The page Inbox: open messages, their deliveries, and silences."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from fastapi import Depends, Path, Query, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import READ, RUN, get_caller
from mosaico.access.queries import list_caller_names
from mosaico.alerts import inbox_view, silence_queries
from mosaico.alerts.evaluation.run_evaluation import read_false_pages
from mosaico.alerts.incident_queries import list_assignees
from mosaico.alerts.models import AlertEvent, AlertRule, AlertSilence
from mosaico.alerts.own_agents import Mine, choose_agents
from mosaico.alerts.publishing import DisplayNameReader
from mosaico.alerts.rule_records import RuleFalseAlarms, read_false_alarms
from mosaico.alerts.schemas import Acknowledgement
from mosaico.alerts.silence_queries import SilenceFilter
from mosaico.benchmarks.queries import list_owner_names
from mosaico.core.errors import Invalid
from mosaico.core.keyset import PageQuery
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.fields import Choices
from mosaico.core.web.forms.page_filters import FilterField, PageFilters, SentFilters
from mosaico.core.web.forms.sent_fields import FormFields, SentForm, check_form, local_path
from mosaico.core.web.page_paths import alert_page_path, path_of, rule_page_path, run_page_path
from mosaico.core.web.pages import (
    build_url,
    list_in_api,
    newest_time,
    public_url,
    render_page,
    see_other,
)
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router
from mosaico.notifications.inbox import announce_inbox, mark_all_read, set_read_at
from mosaico.notifications.queries import endpoints_of
from mosaico.notifications.types import MessageSeverity
from mosaico.notifications.views import delivery_rows

router = Router()

INBOX = "/inbox"
PAGE_SIZE = 25
SILENCE_HOURS = ((1, "1 h"), (8, "8 h"), (24, "1 day"), (168, "7 days"))

# Choices of silences: the filters of the API in the query, and their text.
WHEN: Final = (
    ("ended=false", "not ended"),
    ("active=true", "in effect now"),
    ("ended=false&active=false", "to come"),
    ("ended=true", "ended"),
)

SilenceFilters = Annotated[
    SentFilters[SilenceFilter], Depends(PageFilters(SilenceFilter, "ended active"))
]
Tab = Literal["open", "acknowledged", "silenced", "all"]
Filter = Annotated[str, Query(max_length=200)]
NotificationId = Annotated[str, Path(alias="notificationId")]


@router.get("/inbox", dependencies=READ)
def show_inbox(
    request: Request,
    res: Res,
    query: ListQuery,
    silences: SilenceFilters,
    *,
    tab: Tab = "open",
    when: Filter = "",
    agent: Filter = "",
    benchmark: Filter = "",
    severity: Filter = "",
    done: Filter = "",
    mine: Mine = False,
) -> Response:
    """The open, acknowledged or all messages, or the silences. `done` is the message that a reader has just
    acknowledged or read: the page says so, and offers to undo it.
    """
    if when in dict(WHEN):
        return see_other(f"/inbox?tab=silenced&{when}")
    if tab == "silenced":
        return _show_silences(request, res, query, silences)
    inbox_filter = inbox_view.InboxFilter(
        unread=True if tab == "open" else None,
        severity=severity,
        agent_id=agent,
        benchmark_id=benchmark,
        is_acknowledged=tab == "acknowledged",
    )
    selection = {
        "agentId": agent, "benchmarkId": benchmark, "severity": severity, "state": tab, "limit": PAGE_SIZE,
        "mine": "true" if mine else None,
    }  # fmt: skip
    with res.db.read() as session:
        chosen = choose_agents(session, get_caller(request), mine=mine)
        inbox_filter = inbox_filter._replace(agent_ids=chosen.ids)
        page = inbox_view.list_entries(session, PageQuery(PAGE_SIZE, query.cursor), inbox_filter)
        rule_ids = {event.rule_id for entry in page.rows for event in entry.events}
        false_alarms = read_false_alarms(
            session, rule_ids, res.clock(), read_false_pages(res.options)
        )
        done_entry = inbox_view.find_entry(session, done) if done else None
        entries = [_entry(session, entry, false_alarms, public_url(request)) for entry in page.rows]
        newest = (
            inbox_view.list_entries(session, PageQuery(1), inbox_filter) if query.cursor else page
        )
        silence_count = silence_queries.count_lasting_silences(session, res.clock())
        names = list_owner_names(session)
    severities = [(name, name.lower()) for name in MessageSeverity]
    return render_page(
        request,
        "inbox.html",
        title="Inbox",
        nav=INBOX,
        api=build_url("/inbox", selection, cursor=query.cursor),
        tab=tab,
        entries=entries,
        done=done_entry,
        silence_count=silence_count,
        hours=SILENCE_HOURS,
        params={
            "tab": tab, "agent": agent, "benchmark": benchmark, "severity": severity,
            "mine": selection["mine"], "cursor": query.cursor,
        },
        chosen=chosen,
        filters=[
            _field("tab", tab, kind="hidden"), *([_field("mine", "true", kind="hidden")] if mine else []), _field("agent", agent), _field("benchmark", benchmark),
            _field("severity", severity, severities),
        ],
        names=names,
        newest_at=newest_time(newest.rows[0].notification.created_at if newest.rows else None),
        newest_url=""
        if newest.next_cursor and not newest.rows
        else build_url("/api/v1/inbox", selection),
        next_cursor=page.next_cursor,
    )  # fmt: skip


def _show_silences(
    request: Request, res: Resources, query: PageQuery, filters: SentFilters[SilenceFilter]
) -> Response:
    """Silences, newest first, with the number of alerts that each held back."""
    now, when = res.clock(), urlencode(filters.in_api)
    with res.db.read() as session:
        page = silence_queries.list_silences(session, query, filters.of_list, now)
        counts = silence_queries.count_silenced_events(
            session, [silence.id for silence in page.rows]
        )
        silences = [
            {
                **silence_row(session, silence),
                "has_ended": silence.ends_at <= now,
                "events": counts[silence.id],
            }
            for silence in page.rows
        ]
        silence_count = silence_queries.count_lasting_silences(session, now)
    return render_page(
        request,
        "inbox.html",
        title="Silences",
        nav=INBOX,
        api=list_in_api(request, "/silences", **filters.in_api),
        tab="silenced",
        silences=silences,
        silence_count=silence_count,
        max_events=silence_queries.MAX_SILENCED,
        filters=[
            _field("tab", "silenced", kind="hidden"),
            _field("when", when, list(dict([*([(when, when)] if when else []), *WHEN]).items())),
        ],
        names={},
        newest_url="",
        next_cursor=page.next_cursor,
    )  # fmt: skip


@router.post("/inbox/ack", dependencies=RUN)
def acknowledge_alerts(request: Request, form: SentForm, res: Res) -> Response:
    """Judge the alerts of the selected messages as true or noise, with a note."""
    _acknowledge(request, form, res, form.texts("message"))
    return _back(form)


@router.post("/inbox/{notificationId}/ack", dependencies=RUN)
def acknowledge_alert(
    notification_id: NotificationId, request: Request, form: SentForm, res: Res
) -> Response:
    """Judge the alerts of a message as true or noise."""
    _acknowledge(request, form, res, [notification_id])
    return _back(form, done=notification_id)


@router.post("/inbox/{notificationId}/read", dependencies=RUN)
def read_notification(notification_id: NotificationId, form: SentForm, res: Res) -> Response:
    """Mark a message as read."""
    with res.db.begin() as session:
        set_read_at(session, notification_id, res.clock())
    return _back(form, done=notification_id)


@router.post("/inbox/{notificationId}/silence", dependencies=RUN)
def create_silence(
    request: Request, notification_id: NotificationId, form: SentForm, res: Res
) -> Response:
    """Silence the alerts of a message."""
    hours, by = silence_hours(form), get_caller(request).key_id
    with res.db.begin() as session:
        inbox_view.silence_message(session, notification_id, hours, by, res.clock())
    return see_other("/inbox?tab=silenced&ended=false")


@router.post("/inbox/{notificationId}/unread", dependencies=RUN)
def unread_notification(notification_id: NotificationId, form: SentForm, res: Res) -> Response:
    """Mark a message as unread."""
    with res.db.begin() as session:
        set_read_at(session, notification_id, None)
    return _back(form)


@router.post("/inbox/{notificationId}/undo", dependencies=RUN)
def undo_acknowledgement(notification_id: NotificationId, form: SentForm, res: Res) -> Response:
    """Open a message again that was judged or read."""
    with res.db.begin() as session:
        inbox_view.reopen_message(session, notification_id)
    return _back(form)


@router.post("/inbox/read-all", dependencies=RUN)
def read_all_notifications(request: Request, res: Res) -> Response:
    """Mark all messages as read."""
    # Without the audit of this request: the batches are one action, which the last transaction records.
    mark_all_read(request.app.state.resources.db, res.clock())
    with res.db.begin() as session:
        announce_inbox(session)
    return see_other(INBOX)


def _field(name: str, value: str, options: Choices = (), kind: str = "search") -> FilterField:
    return FilterField(name, [value] if value else [], options, kind)


def silence_hours(form: FormFields) -> int:
    """The sent duration of a silence. Raises: `Invalid`."""
    hours = form.text("hours", "1")
    if not hours.isdecimal():
        raise Invalid("the duration of a silence is a number of hours")
    return int(hours[:6])


def read_acknowledgement(form: FormFields) -> Acknowledgement:
    """The sent verdict and note. Raises: `Invalid`."""
    answer = {"verdict": form.text("verdict"), "note": form.text("note") or None}
    checked = check_form(Acknowledgement, answer)
    if checked.body is None:
        raise Invalid("say whether it was real or a false alarm, with a note of one line")
    return checked.body


def _acknowledge(
    request: Request, form: FormFields, res: Resources, notification_ids: Sequence[str]
) -> None:
    """Acknowledge the alerts of messages with the verdict of the form. Raises: `Invalid`."""
    answer, by = read_acknowledgement(form), get_caller(request).key_id
    if not notification_ids:
        raise Invalid("no message is selected; select the messages to acknowledge")
    # In one order, so that two readers who acknowledge the same messages wait and do not block.
    ids = sorted({*notification_ids})
    request.state.changed = [path_of("inbox", notification_id) for notification_id in ids]
    with res.db.begin() as session:
        for notification_id in ids:
            inbox_view.acknowledge_message(
                session, notification_id, answer.verdict, by, res.clock(), answer.note
            )


def _back(form: FormFields, done: str | None = None) -> Response:
    """The page that sent the form, with its filters; the inbox says what was `done` to a message."""
    target = urlsplit(local_path(form.text("next", INBOX)))
    query = [(name, value) for name, value in parse_qsl(target.query) if name != "done"]
    if done is not None and target.path == INBOX:
        query.append(("done", done))
    return see_other(urlunsplit(("", "", target.path, urlencode(query), "")))


def _entry(
    session: Session,
    entry: inbox_view.InboxEntry,
    false_alarms: Mapping[str, RuleFalseAlarms],
    base: str,
) -> dict[str, Any]:
    message = entry.notification.message
    endpoints = endpoints_of(session, entry.deliveries)
    runs = list(dict.fromkeys(event.run_id for event in entry.events if event.run_id))
    return {
        "id": entry.notification.id,
        "title": entry.notification.title,
        "severity": entry.notification.severity,
        "created_at": entry.notification.created_at,
        "read_at": entry.notification.read_at,
        "is_firing": entry.is_firing,
        "has_alerts": bool(entry.events),
        "judgements": _judgements(session, entry.events),
        "assignees": sorted(
            {*list_assignees(session, {event.incident_id for event in entry.events}).values()}
        ),
        "sentences": [*message.sentences, *(s for item in message.items for s in item.sentences)],
        "url": run_page_path(runs[0])
        if runs
        else local_path((message.link or "").removeprefix(base), ""),
        "alerts": [(event.name, alert_page_path(event.id)) for event in entry.events],
        "all_alerts": inbox_view.find_all_alerts(session, entry),
        "rules": [
            false_alarms[rule_id]
            for rule_id in dict.fromkeys(event.rule_id or "" for event in entry.events)
            if rule_id in false_alarms
        ],
        "deliveries": delivery_rows(entry.deliveries, endpoints),
    }


class _JudgementText(NamedTuple):
    """Who judged alerts of a message, when, and why."""

    verdict: str
    by: str
    at: datetime | None
    note: str | None


def _judgements(session: Session, events: Sequence[AlertEvent]) -> list[_JudgementText]:
    """What was said of the alerts of a message; alerts that were judged together are one."""
    judged = [event for event in events if event.verdict]
    names = list_caller_names(session, {event.acknowledged_by for event in judged})
    texts = (
        _JudgementText(
            event.verdict or "",
            names.get(event.acknowledged_by or "", event.acknowledged_by or "without a key"),
            event.acknowledged_at,
            event.note,
        )
        for event in judged
    )
    return list(dict.fromkeys(texts))


def silence_row(session: Session, silence: AlertSilence) -> dict[str, Any]:
    """A silence with the names of what it holds back."""
    matchers, rule_id = silence.matchers, silence.matchers.alert_config_id
    rule = session.get(AlertRule, rule_id) if rule_id else None
    names = DisplayNameReader(session).names(matchers.benchmark_id or "", matchers.agent_id or "")
    parts = [
        f"rule {rule.name if rule else rule_id}" if rule_id else "",
        f"agent {names.agent}" if matchers.agent_id else "",
        f"benchmark {names.benchmark}" if matchers.benchmark_id else "",
        f"severity {matchers.severity.lower()}" if matchers.severity else "",
        f"rules named {matchers.name}" if matchers.name else "",
    ]
    return {
        "id": silence.id,
        "matchers": ", ".join(filter(None, parts)),
        "rule_url": rule_page_path(rule.id) if rule else None,
        "comment": silence.comment,
        "by": list_caller_names(session, {silence.created_by}).get(silence.created_by or ""),
        "starts_at": silence.starts_at,
        "ends_at": silence.ends_at,
    }
