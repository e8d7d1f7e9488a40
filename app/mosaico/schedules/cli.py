"""`mosaico schedules`: manage schedules. `mosaico cron`: preview a cron expression."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from mosaico.core.console.filter_options import id_filter
from mosaico.core.console.generated_command import FieldOption
from mosaico.core.console.resource import Resource
from mosaico.core.console.resource_arguments import Limit, id_argument
from mosaico.core.console.service import open_api
from mosaico.core.console.table import JSON, field, format_cell, print_link, print_page, time_field
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    WrongUsage,
    print_json,
    print_result,
    print_status,
)
from mosaico.core.web.page_paths import path_of, schedule_page_path
from mosaico.schedules.cron import DstPolicy

PATH = "/schedule-configs"

cli = CommandGroup("schedules", help="Manage schedules.")
cron_cli = CommandGroup("cron", help="Preview cron expressions.")
schedules = Resource(group=cli, noun="schedule", path=PATH, page="/schedules")

COLUMNS = (
    field("id"),
    field("name"),
    field("benchmarkId", "benchmark"),
    field("agentId", "agent"),
    field("cronExpression", "cron"),
    field("timezone", "zone"),
    field("enabled"),
    field("nextRunAt", "next run"),
    time_field("lastRunAt", "last run"),
    field("consecutiveFailures", "failures"),
)
FIRE_COLUMNS = (
    field("dueAt", "due"),
    field("firedAt", "fired"),
    field("triggeredBy", "by"),
    field("status"),
    field("runId", "run"),
    field("reason"),
    field("errorCode", "error"),
)
OPTIONS = {
    "benchmarkId": FieldOption(help="ID of the benchmark to run."),
    "agentId": FieldOption(help="ID of the agent to run."),
    "cronExpression": FieldOption("--cron", metavar="EXPR"),
    "timezone": FieldOption("--tz"),
    "dstPolicy": FieldOption(
        "--dst", help="How wall-clock times that daylight saving skips or repeats are handled."
    ),
    "misfirePolicy": FieldOption("--misfire", help="How missed fire times are handled."),
    "concurrencyPolicy": FieldOption(
        "--concurrency", help="How a fire time during the run of an earlier one is handled."
    ),
    "autoDisableOnFailure": FieldOption(help="Disable the schedule after repeated failures."),
}


@cron_cli.callback()
def cron_root() -> None:
    """Preview cron expressions."""


@cron_cli.command("next")
def preview_expression(
    *,
    expression: Annotated[
        str,
        typer.Argument(metavar="EXPR", help="Six fields, seconds first, quoted; or @daily."),
    ],
    zone: Annotated[str, typer.Option("--tz", help="Time zone, an IANA name.")] = "UTC",
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Print fire times after this one (default: now)."
        ),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", min=1, max=100, help="Number of fire times.")
    ] = 10,
    dst: Annotated[
        DstPolicy,
        typer.Option(
            "--dst",
            case_sensitive=False,
            help="How wall-clock times that daylight saving skips or repeats are handled.",
        ),
    ] = DstPolicy.SPRING,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Print the next fire times of an expression, one per line. No server is needed.

    A description of the expression, and notes on clock changes, are printed to standard error.
    """
    from mosaico.schedules.preview import preview
    from mosaico.schedules.schemas import PreviewRequest

    request = PreviewRequest(
        cron_expression=expression,
        timezone=zone,
        dst_policy=dst,
        after=_parse_time(start) if start else None,
        count=count,
    )
    fire_times = preview(request, datetime.now(UTC))
    if output is OutputFormat.JSON:
        print_json(fire_times.model_dump(mode="json"))
        return
    print_status(f"{fire_times.description} ({fire_times.timezone})")
    for note in fire_times.notes:
        print_status(f"note: {note.text}")
    for instant in fire_times.next:
        print_result(instant.isoformat())


def describe_created(schedule: JSON) -> list[str]:
    """Status lines after a schedule was created."""
    from mosaico.schedules.cron import CronExpression
    from mosaico.schedules.preview import notes_of_long_steps

    schedule_id = format_cell(schedule["id"])
    expression = CronExpression.parse(schedule["cronExpression"])
    return [
        f"schedule {schedule_id} is created",
        *describe_next_run(schedule),
        *(f"note: {note}" for note in notes_of_long_steps(expression)),
        *(f"note: {format_cell(change['text'])}" for change in schedule["clockChanges"]),
        f"next: `mosaico schedules fires {schedule_id}`",
    ]


def describe_next_run(schedule: JSON) -> list[str]:
    """Describe the next fire time of an enabled schedule."""
    if not schedule["enabled"]:
        return []
    return [f"next run: {schedule['nextRunAt'] or 'never'}"]


def report_fire(fire: JSON) -> None:
    """Print the run that a triggered schedule started, or why it started none."""
    if fire["runId"]:
        print_result(format_cell(fire["runId"]))
    print_status(f"{fire['status']} {format_cell(fire['detail'])}".rstrip())


schedules.add_list(
    COLUMNS,
    filters={
        "benchmarkId": id_filter("benchmark", "/benchmarks"),
        "agentId": id_filter("agent", "/agents"),
    },
    help_text="List schedules, newest first.",
)
schedules.add_show(help_text="Show a schedule.")
schedules.add_create(
    "mosaico.schedules.schemas:ScheduleCreate",
    options=OPTIONS,
    help_text="Create a schedule and print its ID.",
    describe=describe_created,
)
schedules.add_update(
    "mosaico.schedules.schemas:SchedulePatch",
    options=OPTIONS,
    describe=describe_next_run,
)
schedules.add_switches(
    enable="Enable a schedule and reset its failure count.",
    disable="Disable a schedule. Runs that it started continue.",
    describe=describe_next_run,
)
schedules.add_action(
    "trigger",
    help_text="Start a run of a schedule now and print its ID. The next fire time stays the same.",
    report=report_fire,
)
schedules.add_delete(help_text="Delete a schedule and its fire history. Its runs are kept.")


@cli.command("fires")
def list_fires(
    schedule: Annotated[str, id_argument("schedule", PATH)],
    limit: Limit = 20,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the fire history of a schedule, newest first."""
    with open_api() as api:
        schedule_id = api.find_id(PATH, schedule)
        page = api.page(f"{PATH}{path_of(schedule_id)}/fires", limit=limit)
        address = f"{api.pages_url}{schedule_page_path(schedule_id)}"
    print_page(page, FIRE_COLUMNS, output)
    print_link(address, output)


def _parse_time(text: str) -> datetime:
    """A time on the command line; without a UTC offset it is UTC. Raises: `WrongUsage`."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise WrongUsage(
            f"--from {text!r} is not a valid time", hint="write it as 2026-03-28T12:00:00+01:00"
        ) from None
    return instant if instant.utcoffset() is not None else instant.replace(tzinfo=UTC)
