"""Pages of schedules: when each fires next, whether it fired, and the form that explains an expression."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import ADMIN, READ, RUN
from mosaico.agents.queries import get_agent, list_agent_names
from mosaico.benchmarks.queries import get_benchmark, list_benchmark_names
from mosaico.core.keyset import PageQuery, find_whole_list
from mosaico.core.names import Names
from mosaico.core.resources import Resources
from mosaico.core.schemas import IsoDate
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.form_page import (
    FormPage,
    require_revision,
    show_form,
    submit_form,
)
from mosaico.core.web.forms.page_filters import PageFilters, SentFilters
from mosaico.core.web.forms.rendering import FieldInput, SchemaForm
from mosaico.core.web.forms.sent_fields import SentForm
from mosaico.core.web.page_paths import page_parameter, path_of
from mosaico.core.web.pages import (
    ComputedRequest,
    Crumb,
    build_url,
    list_in_api,
    reader_zone,
    render_page,
    see_other,
)
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router
from mosaico.schedules import daily_summary, firing, queries, service
from mosaico.schedules.day_changes import MAX_CHANGED
from mosaico.schedules.models import ScheduleConfig, ScheduleFire
from mosaico.schedules.schedule_view import (
    LABELS,
    iter_problems,
    preview_of_schedule,
    preview_typed,
    show_fires,
)
from mosaico.schedules.schemas import ScheduleCreate, SchedulePatch
from mosaico.schedules.views import schedule_view

router = Router()

NAV = "/schedules"
STEPS = (Crumb("Schedules", NAV),)
SHOWN_FIRES = 30

FORM = SchemaForm(
    create=ScheduleCreate,
    patch=SchedulePatch,
    main=("name", "benchmarkId", "agentId", "cronExpression", "timezone", "enabled"),
    inputs={
        "benchmarkId": FieldInput("Benchmark"),
        "agentId": FieldInput("Agent"),
        "cronExpression": FieldInput(
            LABELS["cronExpression"],
            "Six fields: second, minute, hour, day of month, month, day of week; or a macro such as @daily.",
        ),
        "timezone": FieldInput(LABELS["timezone"], "An IANA name such as Europe/Rome."),
        "enabled": FieldInput("On", "A disabled schedule does not fire and keeps its history."),
        "dstPolicy": FieldInput(
            LABELS["dstPolicy"],
            "Spring: a skipped time does not fire, a repeated one fires twice. Once: either fires once.",
        ),
        "misfirePolicy": FieldInput("Missed times", "Handling of fire times at which no scheduler was running."),
        "catchupWindowSeconds": FieldInput("Catch-up window, seconds"),
        "concurrencyPolicy": FieldInput("Overlap", "Handling of fire times while an earlier run is in progress."),
        "autoDisableOnFailure": FieldInput("Disable after repeated failures"),
        "maxConsecutiveFailures": FieldInput("Failures until the schedule is disabled"),
    },
)  # fmt: skip

ScheduleFilters = Annotated[
    SentFilters[queries.ScheduleFilter],
    Depends(PageFilters(queries.ScheduleFilter, "agent benchmark enabled")),
]
ScheduleId = Annotated[str, Path(alias="scheduleId")]


@router.get("/schedules", dependencies=READ)
def show_schedules(
    request: Request, res: Res, query: ListQuery, filters: ScheduleFilters
) -> Response:
    """The schedules with their next and last fire."""
    with res.db.read() as session:
        page = queries.list_schedules(session, query, filters.of_list)
        targets = _target_names(session)
    return render_page(
        request,
        "schedules.html",
        title="Schedules",
        nav=NAV,
        api=list_in_api(request, "/schedule-configs", **filters.in_api),
        filters=filters.fields,
        names={page_parameter(name): names.choices() for name, names in targets.items()},
        schedules=[
            (schedule, preview_of_schedule(schedule, res.clock(), count=1))
            for schedule in page.rows
        ],
        targets=targets,
        next_cursor=page.next_cursor,
    )


@router.get("/schedules/{scheduleId}", dependencies=READ)
def show_schedule(request: Request, schedule_id: ScheduleId, res: Res) -> Response:
    """Show one schedule: its next fires, and its last fires as a strip."""
    now = res.clock()
    with res.db.read() as session:
        schedule = queries.get_schedule(session, schedule_id)
        fires = queries.list_fires(session, schedule_id, PageQuery(SHOWN_FIRES))
        benchmark = get_benchmark(session, schedule.benchmark_id)
        agent = get_agent(session, schedule.agent_id)
        all_fires = find_whole_list(
            session,
            fires,
            path_of("schedules", schedule_id, "fires"),
            ScheduleFire.schedule_id,
            schedule_id,
        )
    return render_page(
        request,
        "schedule.html",
        title=schedule.name,
        nav=NAV,
        api=f"/schedule-configs{path_of(schedule_id)}",
        api_parts={
            "fires": build_url(f"/schedule-configs{path_of(schedule_id)}/fires", limit=SHOWN_FIRES)
        },
        api_question=ComputedRequest(
            "/schedule-configs/preview",
            {
                "cronExpression": schedule.cron_expression,
                "timezone": schedule.timezone,
                "dstPolicy": schedule.dst_policy,
            },
        ),
        steps=STEPS,
        schedule=schedule,
        preview=preview_of_schedule(schedule, now, reader=reader_zone(request)),
        fires=show_fires(fires.rows),
        all_fires=all_fires,
        benchmark=benchmark.display_name,
        agent=agent.name,
    )


@router.get("/schedules/{scheduleId}/fires", dependencies=READ)
def show_all_fires(
    request: Request, schedule_id: ScheduleId, res: Res, query: ListQuery
) -> Response:
    """The fires of a schedule, newest first."""
    with res.db.read() as session:
        name = queries.get_schedule(session, schedule_id).name
        page = queries.list_fires(session, schedule_id, query)
    address = path_of("schedules", schedule_id)
    return render_page(
        request,
        "history.html",
        title=f"Fires of {name}",
        nav=NAV,
        api=list_in_api(request, f"/schedule-configs{path_of(schedule_id)}/fires"),
        steps=[*STEPS, Crumb(name, address)],
        path=f"{address}/fires",
        fires=show_fires(page.rows)[::-1],
        next_cursor=page.next_cursor,
    )


@router.get("/new/schedule", dependencies=ADMIN)
def show_new_schedule(request: Request, res: Res) -> Response:
    """The form of a new schedule."""
    return show_form(request, _form_page(request, None, res))


@router.post("/schedules", dependencies=ADMIN)
def create_schedule(request: Request, form: SentForm, res: Res) -> Response:
    """Create a schedule and show it."""

    def save(body: ScheduleCreate) -> str:
        with res.db.begin() as session:
            now = queries.database_now(session)
            schedule = service.create_schedule(session, body, now)
            request.state.created = f"/api/v1/schedule-configs{path_of(schedule.id)}"
            return path_of("schedules", schedule.id)

    return submit_form(request, form, lambda: _form_page(request, None, res), save)


@router.get("/schedules/{scheduleId}/edit", dependencies=ADMIN)
def show_schedule_form(request: Request, schedule_id: ScheduleId, res: Res) -> Response:
    """The form of a schedule."""
    return show_form(request, _form_page(request, schedule_id, res))


@router.post("/schedules/{scheduleId}", dependencies=ADMIN)
def change_schedule(
    request: Request, schedule_id: ScheduleId, form: SentForm, res: Res
) -> Response:
    """Change a schedule and show it."""

    def save(body: SchedulePatch) -> str:
        with res.db.begin() as session:
            schedule = queries.get_schedule(session, schedule_id, for_update=True)
            require_revision(form, schedule.revision)
            now = queries.database_now(session)
            service.change_schedule(session, schedule_id, body, now)
        return path_of("schedules", schedule_id)

    return submit_form(request, form, lambda: _form_page(request, schedule_id, res), save)


@router.post("/schedules/{scheduleId}/switch", dependencies=ADMIN)
def switch_schedule(schedule_id: ScheduleId, form: SentForm, res: Res) -> Response:
    """Turn a schedule on or off."""
    with res.db.begin() as session:
        patch = SchedulePatch.model_validate({"enabled": form.text("enabled") == "true"})
        service.change_schedule(session, schedule_id, patch, queries.database_now(session))
    return see_other(path_of("schedules", schedule_id))


@router.post("/schedules/{scheduleId}/trigger", dependencies=RUN)
def trigger_schedule(schedule_id: ScheduleId, res: Res) -> Response:
    """Fire a schedule now and show the run; without one, the schedule."""
    with res.db.begin() as session:
        fire = firing.trigger_now(session, schedule_id, queries.database_now(session))
        run_id = fire.run_id
    target = path_of("runs", run_id) if run_id else path_of("schedules", schedule_id)
    return see_other(target)


@router.post("/schedules/{scheduleId}/delete", dependencies=ADMIN)
def delete_schedule(schedule_id: ScheduleId, res: Res) -> Response:
    """Delete a schedule and its history; its runs stay."""
    with res.db.begin() as session:
        service.delete_schedule(session, schedule_id)
    return see_other(NAV)


@router.get("/daily-summary", dependencies=READ)
def show_daily_summary(
    request: Request, res: Res, day: Annotated[IsoDate | None, Query(alias="date")] = None
) -> Response:
    """A day in the zone of the reader: its runs, and what went wrong."""
    zone = reader_zone(request)
    summary_day = daily_summary.get_day(day, zone.key, res.clock())
    with res.db.read() as session:
        summary = daily_summary.summarize_day(session, summary_day)
    days = (
        ("Previous day", max(summary_day.date, date.min + timedelta(days=1)) - timedelta(days=1)),
        ("Today", None),
        ("Next day", summary_day.date + timedelta(days=1)),
    )
    return render_page(
        request,
        "daily_summary.html",
        title=f"Summary of {summary_day.date}",
        nav="/",
        api=build_url("/daily-summary", date=summary_day.date, timezone=zone.key),
        summary=summary,
        problems=list(iter_problems(summary)),
        max_listed=daily_summary.MAX_LISTED,
        max_changed=MAX_CHANGED,
        periods=[(text, build_url("/daily-summary", date=at), False) for text, at in days],
    )


def _form_page(request: Request, schedule_id: str | None, res: Resources) -> FormPage:
    """The form of a schedule, or of a new one, which starts in the zone of the reader."""
    zone = reader_zone(request)
    with res.db.read() as session:
        targets = _target_names(session)
        schedule = None if schedule_id is None else queries.get_schedule(session, schedule_id)

    def preview(typed: Mapping[str, Any]) -> dict[str, Any]:
        return {"preview": preview_typed(typed, res.clock(), zone)}

    address = path_of("schedules", schedule.id) if schedule else NAV
    return FormPage(
        form=FORM,
        title=f"Edit {schedule.name}" if schedule else "New schedule",
        nav=NAV,
        steps=(*STEPS, Crumb(schedule.name, address)) if schedule else STEPS,
        action=address,
        back=address,
        submit="Save" if schedule else "Create",
        values=_values(schedule, res.clock()) if schedule else {"timezone": zone.key},
        choices={name: names.choices() for name, names in targets.items()},
        revision=schedule.revision if schedule else None,
        template="schedule_form.html",
        preview=preview,
        preview_at="timezone",
    )


def _values(schedule: ScheduleConfig, now: datetime) -> dict[str, Any]:
    return schedule_view(schedule, now).model_dump(mode="json")


def _target_names(session: Session) -> dict[str, Names]:
    """The names of what a schedule can run, by the name of its field and by ID."""
    return {"benchmarkId": list_benchmark_names(session), "agentId": list_agent_names(session)}
