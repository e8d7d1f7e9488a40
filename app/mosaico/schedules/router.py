"""REST endpoints of schedules, their fires, the cron preview and the daily summary."""

from typing import Annotated

from fastapi import Path, Query, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import ADMIN, READ, RUN
from mosaico.access.idempotency import Idempotent
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.resources import Resources
from mosaico.core.schemas import IsoDate, Page, view_of_row
from mosaico.core.web.deps import Res
from mosaico.core.web.etag import IfMatch, IfNoneMatch, RevisionCheck
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router
from mosaico.schedules import daily_summary, firing, preview, queries, service
from mosaico.schedules.models import ScheduleFire
from mosaico.schedules.rules import SKIP_DETAILS, FireSkipReason, FireStatus
from mosaico.schedules.schemas import (
    DailySummaryView,
    FireView,
    PreviewRequest,
    PreviewView,
    ScheduleBody,
    ScheduleCreate,
    SchedulePatch,
    ScheduleView,
)
from mosaico.schedules.views import schedule_view

router = Router(prefix="/schedule-configs", tags=["schedules"])
summary_router = Router(tags=["schedules"])

ScheduleId = Annotated[str, Path(alias="scheduleId")]


@router.post("", status_code=201, response_model=ScheduleView, dependencies=ADMIN)
def create_schedule(body: ScheduleCreate, once: Idempotent) -> Response:
    """Create a schedule. The cron expression has six fields, second first."""
    return once(
        body,
        lambda session: _create(session, body),
    )


@router.get("", dependencies=READ)
def list_schedules(
    res: Res,
    page: PageParams,
    schedule_filter: Annotated[queries.ScheduleFilter, Query()],
) -> Page[ScheduleView]:
    """List schedules, newest first. A repeated filter lists those with any of its values."""
    with res.db.read() as session:
        rows = queries.list_schedules(session, page, schedule_filter)
        now = res.clock()
        return rows.to_page(lambda schedule: schedule_view(schedule, now))


@router.post("/preview", dependencies=READ)
def preview_schedule(body: PreviewRequest, res: Res) -> PreviewView:
    """Preview an expression: description, next instants, and the effect of clock changes."""
    return preview.preview(body, res.clock())


@router.get("/{scheduleId}", dependencies=READ)
def get_schedule(schedule_id: ScheduleId, res: Res, tagged: IfNoneMatch) -> ScheduleView:
    """Show a schedule."""
    with res.db.read() as session:
        schedule = queries.get_schedule(session, schedule_id)
        return tagged(schedule_view(schedule, res.clock()))


@router.patch("/{scheduleId}", dependencies=ADMIN, responses=CONFLICT)
def change_schedule(
    schedule_id: ScheduleId, body: SchedulePatch, res: Res, match: IfMatch
) -> ScheduleView:
    """Change the given fields. Enabling a schedule resets its failures."""
    return _edit_schedule(schedule_id, body, res, match)


@router.put("/{scheduleId}", dependencies=ADMIN, responses=CONFLICT)
def replace_schedule(
    schedule_id: ScheduleId, body: ScheduleBody, res: Res, match: IfMatch
) -> ScheduleView:
    """Replace all fields; an omitted field gets its default."""
    return _edit_schedule(schedule_id, body, res, match)


@router.delete("/{scheduleId}", status_code=204, dependencies=ADMIN)
def delete_schedule(schedule_id: ScheduleId, res: Res, match: IfMatch) -> None:
    """Delete a schedule and its fires; runs that it started stay."""
    with res.db.begin() as session:
        match(queries.get_schedule(session, schedule_id, for_update=True).revision)
        service.delete_schedule(session, schedule_id)


@router.post("/{scheduleId}/trigger", status_code=201, response_model=FireView, dependencies=RUN)
def trigger_schedule(schedule_id: ScheduleId, once: Idempotent) -> Response:
    """Fire a schedule now, enabled or not; the next scheduled run does not change."""
    return once(
        None,
        lambda session: fire_view(
            firing.trigger_now(session, schedule_id, queries.database_now(session))
        ),
        location=lambda _: f"/api/v1/schedule-configs/{schedule_id}/fires",
    )


@router.get("/{scheduleId}/fires", dependencies=READ)
def list_fires(schedule_id: ScheduleId, res: Res, page: PageParams) -> Page[FireView]:
    """List the due instants, newest first, with the run or the reason why there is none."""
    with res.db.read() as session:
        queries.get_schedule(session, schedule_id)
        return queries.list_fires(session, schedule_id, page).to_page(fire_view)


@summary_router.get("/daily-summary", dependencies=READ)
def get_daily_summary(
    res: Res,
    day: Annotated[
        IsoDate | None, Query(alias="date", description="Default: today in the time zone.")
    ] = None,
    timezone: Annotated[str, Query(max_length=100, description="IANA time zone name.")] = "UTC",
) -> DailySummaryView:
    """Summarize a day: its runs, the failed ones, and schedules that started no run."""
    summary_day = daily_summary.get_day(day, timezone, res.clock())
    with res.db.read() as session:
        return daily_summary.summarize_day(session, summary_day)


def _create(session: Session, body: ScheduleCreate) -> ScheduleView:
    now = queries.database_now(session)
    return body.confirm_created(schedule_view(service.create_schedule(session, body, now), now))


def _edit_schedule(
    schedule_id: str, body: ScheduleBody, res: Resources, match: RevisionCheck
) -> ScheduleView:
    with res.db.begin() as session:
        schedule = queries.get_schedule(session, schedule_id, for_update=True)
        match(schedule.revision)
        now = queries.database_now(session)
        edit = body.compare_with_view(schedule_view(schedule, now))
        schedule = service.change_schedule(session, schedule_id, edit, now)
        return match.etag(schedule_view(schedule, now))


def fire_view(fire: ScheduleFire) -> FireView:
    """A fire as JSON: its reason is that of a skip, or the code of an error."""
    is_skip = fire.status == FireStatus.SKIPPED
    reason = FireSkipReason(fire.reason) if is_skip and fire.reason else None
    return view_of_row(
        FireView,
        fire,
        reason=reason,
        error_code=None if is_skip else fire.reason,
        detail=fire.detail or (SKIP_DETAILS[reason] if reason else None),
    )
