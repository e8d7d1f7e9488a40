"""`mosaico schedules`: what runs by the clock; `mosaico cron`: a look at an expression."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from app.core.console.shell_completion import ids_at
from app.core.console.table import JSON, field, format_cell, print_details, print_page, time_field
from app.core.console.terminal import (
    CommandGroup,
    DryRun,
    Format,
    OutputFormat,
    WrongUsage,
    Yes,
    print_json,
    print_result,
    print_status,
)
from app.schedules.cron import DstPolicy
from app.schedules.rules import ConcurrencyPolicy, MisfirePolicy

PATH = "/schedule-configs"

cli = CommandGroup("schedules", help="Schedules: what runs by the clock, and what became of it.")
cron_cli = CommandGroup("cron", help="Look at a cron expression.")


@cron_cli.callback()
def cron_root() -> None:
    """Look at a cron expression; needs no server."""


ScheduleId = Annotated[
    str, typer.Argument(metavar="SCHEDULE", help="Id of a schedule.", autocompletion=ids_at(PATH))
]
Expression = Annotated[
    str, typer.Argument(metavar="EXPR", help="Six fields, second first, in quotes; or @daily.")
]
Zone = Annotated[str, typer.Option("--tz", help="Time zone, an IANA name.")]
Dst = Annotated[
    DstPolicy,
    typer.Option("--dst", case_sensitive=False, help="What skipped and repeated wall times do."),
]
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
)


@cron_cli.command("next")
def next_instants(
    *,
    expression: Expression,
    zone: Zone = "UTC",
    start: Annotated[
        str | None, typer.Option("--from", metavar="ISO", help="Instants after this one; else now.")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=100, help="So many.")] = 10,
    dst: Dst = DstPolicy.SPRING,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Print when an expression fires next, one instant a line; needs no server.

    Words, and what the clocks do to it, go to standard error.
    """
    from app.schedules.preview import preview
    from app.schedules.schemas import PreviewRequest

    request = PreviewRequest(
        cron_expression=expression,
        timezone=zone,
        dst_policy=dst,
        after=_instant(start) if start else None,
        count=count,
    )
    schedule_preview = preview(request, datetime.now(UTC))
    if output is OutputFormat.JSON:
        print_json(schedule_preview.model_dump(mode="json"))
        return
    print_status(f"{schedule_preview.description} ({schedule_preview.timezone})")
    for note in schedule_preview.notes:
        print_status(f"note: {note.text}")
    for instant in schedule_preview.next:
        print_result(instant.isoformat())


@cli.command("list")
def list_schedules(
    *,
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", help="Of this one.", autocompletion=ids_at("/benchmarks")),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Of this one.", autocompletion=ids_at("/agents"))
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 50,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the schedules, newest first."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(PATH, limit=limit, benchmarkId=benchmark, agentId=agent)
    print_page(page, COLUMNS, output)


@cli.command("show")
def show_schedule(schedule: ScheduleId, output: Format = OutputFormat.TABLE) -> None:
    """Show one schedule."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        found = api.get(_path(schedule))
    if output is OutputFormat.JSON:
        print_json(found)
    else:
        print_details(found)


@cli.command("fires")
def list_fires(
    schedule: ScheduleId,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 20,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List what became of the due instants of a schedule, newest first."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        page = api.page(f"{_path(schedule)}/fires", limit=limit)
    print_page(page, FIRE_COLUMNS, output)


@cli.command("create")
def create_schedule(
    *,
    schedule_id: Annotated[str | None, typer.Option("--id", help="Made when left out.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="What people call it.")] = None,
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", help="What is run.", autocompletion=ids_at("/benchmarks")),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", help="Whom it judges.", autocompletion=ids_at("/agents")),
    ] = None,
    expression: Annotated[
        str | None, typer.Option("--cron", help="Six fields, second first, or @daily.")
    ] = None,
    zone: Annotated[str | None, typer.Option("--tz", help="Time zone; UTC if left out.")] = None,
    pattern: Annotated[
        str | None, typer.Option("--run-name-pattern", help="Judge the newest run that matches.")
    ] = None,
    misfire: Annotated[
        MisfirePolicy | None,
        typer.Option("--misfire", case_sensitive=False, help="What missed instants do."),
    ] = None,
    concurrency: Annotated[
        ConcurrencyPolicy | None,
        typer.Option("--concurrency", case_sensitive=False, help="What overlapping runs do."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="The schedule as JSON, as the API takes it; - is stdin."),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Run a benchmark by the clock and print the id; options win over the fields of --file."""
    from app.core.console.api_client import open_api
    from app.core.console.input_files import read_object

    given = {
        "id": schedule_id,
        "name": name,
        "benchmarkId": benchmark,
        "agentId": agent,
        "cronExpression": expression,
        "timezone": zone,
        "runNamePattern": pattern,
        "misfirePolicy": misfire,
        "concurrencyPolicy": concurrency,
    }
    body = read_object(file) if file else {}
    body |= {key: value for key, value in given.items() if value is not None}
    with open_api() as api:
        created = api.post(PATH, body)
    if output is OutputFormat.JSON:
        print_json(created)
    else:
        print_result(format_cell(created["id"]))
    print_status(
        f"schedule {format_cell(created['id'])} runs next at {created['nextRunAt'] or 'no time'}"
    )
    print_status(f"next: `mosaico schedules fires {format_cell(created['id'])}`")


@cli.command("enable")
def enable_schedule(schedule: ScheduleId, output: Format = OutputFormat.TABLE) -> None:
    """Enable a schedule; its failures are forgiven."""
    _switch(schedule, output, enabled=True)


@cli.command("disable")
def disable_schedule(schedule: ScheduleId, output: Format = OutputFormat.TABLE) -> None:
    """Disable a schedule; runs that it started go on."""
    _switch(schedule, output, enabled=False)


@cli.command("trigger")
def trigger_schedule(schedule: ScheduleId, output: Format = OutputFormat.TABLE) -> None:
    """Fire a schedule now and print the run; its timetable stays as it is."""
    from app.core.console.api_client import open_api

    with open_api() as api:
        fire = api.post(f"{_path(schedule)}/trigger")
    if output is OutputFormat.JSON:
        print_json(fire)
    elif fire["runId"]:
        print_result(format_cell(fire["runId"]))
    print_status(
        f"schedule {format_cell(schedule)}: {fire['status']} {format_cell(fire['detail'])}".rstrip()
    )


@cli.command("delete")
def delete_schedule(*, schedule: ScheduleId, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Delete a schedule with its history of fires; its runs stay."""
    from app.core.console.api_client import delete_thing

    delete_thing(_path(schedule), f"the schedule {format_cell(schedule)}", yes=yes, dry_run=dry_run)


def _switch(schedule: str, output: OutputFormat, *, enabled: bool) -> None:
    from app.core.console.api_client import open_api

    with open_api() as api:
        changed: JSON = api.patch(_path(schedule), {"enabled": enabled})
    if output is OutputFormat.JSON:
        print_json(changed)
    state = f"runs next at {changed['nextRunAt']}" if enabled else "is disabled"
    print_status(f"schedule {format_cell(schedule)} {state}")


def _path(schedule: str) -> str:
    from app.core.console.api_client import segment

    return f"{PATH}/{segment(schedule)}"


def _instant(text: str) -> datetime:
    """An instant as an option gives it; without an offset it is UTC."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise WrongUsage(
            f"--from {text!r} is no instant", hint="write it as 2026-03-28T12:00:00+01:00"
        ) from None
    return instant if instant.utcoffset() is not None else instant.replace(tzinfo=UTC)
