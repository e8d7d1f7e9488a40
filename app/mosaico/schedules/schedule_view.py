"""Builds the view of a schedule on pages: its description, its next instants, and a strip of its fires."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from mosaico.core.errors import Invalid, without_request
from mosaico.core.symbols import symbol_of
from mosaico.core.text import format_duration
from mosaico.core.web.form_words import translate_phrases, with_label
from mosaico.core.web.forms.sent_fields import check_form
from mosaico.core.web.page_paths import path_of, run_page_path, schedule_page_path
from mosaico.core.web.page_text import TextPart, mark_spans
from mosaico.schedules.clock_changes import MAX_NOTE_SPAN, clock_notes
from mosaico.schedules.cron import CronExpression
from mosaico.schedules.models import ScheduleConfig, ScheduleFire
from mosaico.schedules.preview import preview
from mosaico.schedules.rules import (
    MISSED_REASONS,
    ON_TIME,
    SKIP_DETAILS,
    FireSkipReason,
    FireStatus,
)
from mosaico.schedules.schemas import DailySummaryView, PreviewRequest
from mosaico.schedules.time_zones import get_time_zone

NEXT_FIRES = 5
# The inputs that decide when a schedule fires.
LABELS = {
    "cronExpression": "Cron expression", "timezone": "Time zone", "dstPolicy": "When the clocks change",
}  # fmt: skip


class NextFire(NamedTuple):
    """A due instant: its text in the zone of the schedule, and what a clock change does to it."""

    at: datetime
    text: str
    note: str | None


class SchedulePreview(NamedTuple):
    """An expression in words with its next instants; or its mistakes, marked in `parts`.

    `has_other_zone` is whether the reader has another zone than the schedule.
    """

    timezone: str
    description: str
    fires: Sequence[NextFire]
    notes: Sequence[str]
    has_other_zone: bool
    parts: Sequence[TextPart] = ()
    mistakes: Sequence[str] = ()


class DayProblem(NamedTuple):
    """What went wrong on a day: with what, the page of that, and the cause."""

    kind: str
    subject: str
    url: str
    cause: str | None


class ShownFire(NamedTuple):
    """A fire: `kind` is the class of its color, `text` describes the outcome."""

    due_at: datetime
    symbol: str
    kind: str
    text: str
    run_url: str | None


def preview_of_schedule(
    schedule: ScheduleConfig,
    now: datetime,
    *,
    count: int = NEXT_FIRES,
    reader: ZoneInfo | None = None,
) -> SchedulePreview:
    """The preview of a stored schedule."""
    typed = {
        "cronExpression": schedule.cron_expression,
        "timezone": schedule.timezone,
        "dstPolicy": schedule.dst_policy,
    }
    preview = preview_typed(typed, now, reader or ZoneInfo("UTC"), count=count)
    assert preview is not None, "a stored schedule has an expression"
    return preview


def preview_typed(
    typed: Mapping[str, Any], now: datetime, reader: ZoneInfo, *, count: int = NEXT_FIRES
) -> SchedulePreview | None:
    """The preview of the typed fields of a schedule; None for no expression."""
    fields = {name: typed.get(name) or None for name in LABELS}
    text = str(fields["cronExpression"] or "")
    if not text:
        return None
    body = {name: value for name, value in fields.items() if value is not None}
    checked = check_form(PreviewRequest, {**body, "count": count})
    if checked.body is None:
        return _mistaken(
            [with_label(detail, LABELS[name]) for name, detail in checked.errors.items()]
        )
    try:
        return _preview(checked.body, now, reader)
    except Invalid as error:
        spans = [item.span for item in error.errors if item.span]
        details = [
            detail if item.span else with_label(detail, LABELS[item.pointer.strip("/")])
            for item in error.errors
            for detail in [translate_phrases(item.detail)]
        ] or [translate_phrases(error.detail)]
        return _mistaken(details, mark_spans(text, spans) if spans else ())


def show_fires(fires: Sequence[ScheduleFire]) -> list[ShownFire]:
    """Fires as they are shown, oldest first."""
    return [_show_fire(fire) for fire in reversed(fires)]


def iter_problems(summary: DailySummaryView) -> Iterator[DayProblem]:
    """The failed runs of a day, then the schedules that were disabled or started no run."""
    for run in summary.failed_runs:
        name = f"{run.agent_name} on {run.benchmark_name}"
        cause = run.error_message or run.error_code
        yield DayProblem("run failed", name, run_page_path(run.id), cause)
    for schedule in summary.disabled_schedules:
        address = schedule_page_path(schedule.id)
        yield DayProblem("disabled", schedule.name, address, schedule.disabled_reason)
    for idle in summary.idle_schedules:
        causes = [
            *idle.details,
            *(
                f"{count:,} × {SKIP_DETAILS.get(reason, reason)}"
                for reason, count in idle.reasons.items()
                if reason != FireSkipReason.NONEXISTENT_TIME
            ),
        ]
        yield DayProblem("no run", idle.name, schedule_page_path(idle.id), "; ".join(causes))


def _preview(request: PreviewRequest, now: datetime, reader: ZoneInfo) -> SchedulePreview:
    view = preview(request, now)
    expression, zone = (
        CronExpression.parse(request.cron_expression),
        get_time_zone(request.timezone),
    )
    notes = clock_notes(expression, zone, now, now + MAX_NOTE_SPAN, request.dst_policy)
    note_of = {note.at.date(): "the clocks change" for note in notes}
    return SchedulePreview(
        timezone=request.timezone,
        description=view.description,
        fires=[
            NextFire(at, f"{at:%a} {at.day} {at:%b %Y %H:%M:%S %Z}", note_of.get(at.date()))
            for at in view.next
        ],
        notes=[note.text for note in notes],
        has_other_zone=any(at.utcoffset() != at.astimezone(reader).utcoffset() for at in view.next),
    )


def _mistaken(mistakes: Sequence[str], parts: Sequence[TextPart] = ()) -> SchedulePreview:
    return SchedulePreview("", "", (), (), has_other_zone=False, parts=parts, mistakes=mistakes)


def _show_fire(fire: ScheduleFire) -> ShownFire:
    state, kind, text = _describe_fire(fire)
    run_url = path_of("runs", fire.run_id) if fire.run_id else None
    return ShownFire(fire.due_at, symbol_of(state), kind, text, run_url)


def _describe_fire(fire: ScheduleFire) -> tuple[str, str, str]:
    """State, class and words of a fire."""
    late = fire.fired_at - fire.due_at
    detail = without_request(fire.detail or SKIP_DETAILS.get(fire.reason or "", ""))
    match FireStatus(fire.status):
        case FireStatus.FAILED:
            return "FAILED", "failed", f"failed: {detail}"
        case FireStatus.PENDING:
            return "PENDING", "running", "a worker is about to start the run"
        case FireStatus.SKIPPED if fire.reason in MISSED_REASONS:
            return "MISSED", "regressed", f"missed: {detail}"
        case FireStatus.SKIPPED:
            is_nonexistent = fire.reason == FireSkipReason.NONEXISTENT_TIME
            return "SKIPPED", "no-evidence", detail if is_nonexistent else f"skipped: {detail}"
        case FireStatus.STARTED:
            if late > ON_TIME:
                return "LATE", "inconclusive", f"started {format_duration(late)} late"
            return "STARTED", "improved", "started on time"
