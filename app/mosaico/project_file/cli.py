"""`mosaico apply` and `mosaico export`: a service as a file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mosaico.core.console.service import open_api
from mosaico.core.console.table import print_link
from mosaico.core.console.terminal import (
    EXIT_UNSUCCESSFUL,
    CommandGroup,
    DryRun,
    Format,
    OutputFormat,
    print_json,
    print_result,
    print_status,
)
from mosaico.core.errors import AppError, Conflict
from mosaico.core.web.page_paths import path_of

if TYPE_CHECKING:
    from mosaico.project_file.apply import Applier
    from mosaico.project_file.kinds import ProjectFile
    from mosaico.project_file.steps import Plan, PlanOptions

apply_cli = CommandGroup("apply", help="Create and change what a file describes.")
export_cli = CommandGroup("export", help="Write a service as a file.")


@apply_cli.command("apply")
def apply(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Project file; - is stdin.")] = Path(
        "mosaico.yaml"
    ),
    dry_run: DryRun = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Archive or disable what the file made and no longer names; nothing is deleted.",
        ),
    ] = False,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt",
            help="Take over objects of the same names that a page or another file made.",
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace edits of others since the last apply."),
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Create and change endpoints, agents, benchmarks, KPIs, alert rules and schedules as a file describes them.

    The difference is printed first. Objects that the file did not make are not touched, fields that it does not name
    neither. With a conflict nothing is changed. Requires an admin key.

    Exit codes: 0 applied, or nothing to do; 3 --dry-run would change something; 73 a conflict.
    """
    # Reading a file needs the schemas of the API, and a `--help` does not.
    from mosaico.project_file.reading import read_project_file
    from mosaico.project_file.steps import PlanOptions

    content = read_project_file(file, os.environ)
    options = PlanOptions(adopt=adopt, overwrite=overwrite, prune=prune)
    _apply_content(content, options, output, dry_run=dry_run)


def _apply_content(
    content: "ProjectFile", options: "PlanOptions", output: OutputFormat, *, dry_run: bool
) -> None:
    # As above.
    from mosaico.project_file.apply import Applier, find_editors, read_service
    from mosaico.project_file.plan import build_plan
    from mosaico.project_file.plan_report import PlanReport

    is_table = output is OutputFormat.TABLE
    with open_api() as api:
        plan = build_plan(content, read_service(api), options)
        report = PlanReport(content, plan, find_editors(api, plan.conflicts))
        if is_table:
            for line in report.lines():
                print_result(line)
            print_status(report.summary())
        fleet = f"{api.pages_url}/fleet"
        applier = Applier(api=api, content=content, names=plan.names)
        if not dry_run and not plan.conflicts:
            with _told_how_far(applier, plan, is_table=is_table):
                for step in plan.steps:
                    applier.perform(step)
    if not is_table:
        print_json(report.document(len(applier.done), dry_run=dry_run))
    if plan.conflicts:
        raise Conflict("the service has other objects than the file expects; nothing was changed")
    if dry_run and plan.visible_steps:
        raise typer.Exit(EXIT_UNSUCCESSFUL)
    if is_table and applier.done:
        print_status("applied")
        print_link(fleet)


ExportedBenchmarks = Annotated[
    list[str] | None,
    typer.Option(
        "--benchmark",
        metavar="ID",
        help="Export this benchmark with its agents and endpoints. Repeatable. Default: everything in use.",
    ),
]


@export_cli.command("export")
def export(
    *,
    benchmarks: ExportedBenchmarks = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="Name of the file, to which the objects will belong. Default: the one that they belong to, or mosaico.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write to this file. Default: standard output."),
    ] = None,
) -> None:
    """Write endpoints, agents, benchmarks, KPIs, alert rules and schedules of the service as a file for `mosaico apply`.

    Secrets are written as ${NAME}: set these variables before the file is applied. To apply a file to the service
    that it was exported from, use --adopt the first time. Requires an admin key.
    """
    # As above.
    from mosaico.core.console.files import write_text
    from mosaico.project_file.apply import read_service
    from mosaico.project_file.export import export_text, file_name_of
    from mosaico.project_file.shipped_schema import schema_line

    with open_api() as api:
        benchmark_ids = [api.find_id("/benchmarks", benchmark) for benchmark in benchmarks or ()]
        for benchmark_id in benchmark_ids:
            # An unknown one is an error, not an empty file.
            api.get(f"/benchmarks{path_of(benchmark_id)}")
        state = read_service(api)
        address = schema_line(api.pages_url)
    text = export_text(state, name or file_name_of(state), benchmark_ids, address)
    if out is None:
        print_result(text.rstrip("\n"))
        return
    write_text(out, text)
    print_status(f"{out} is written")


@contextmanager
def _told_how_far(applier: "Applier", plan: "Plan", *, is_table: bool) -> Iterator[None]:
    """Say after an error what is done and what is not."""
    try:
        yield
    except AppError as error:
        steps = plan.visible_steps
        done = [step.key.path for step in steps[: len(applier.done)]]
        open_paths = [step.key.path for step in steps[len(applier.done) :]]
        if is_table:
            for path in done:
                print_status(f"done: {path}")
            for path in open_paths:
                print_status(f"not done: {path}")
        failed = f"{open_paths[0]}: " if open_paths else ""
        error.detail = f"{failed}{error.detail}"
        error.extra |= {
            "done": done,
            "notDone": open_paths,
            "hint": "correct it and repeat the command: it continues with what is not done",
        }
        raise
