"""`ot-bench` and `mosaico ot-bench`: evaluate models and MCP servers from YAML files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from mosaico.core.console import terminal
from mosaico.core.console.program import run_program, version_of
from mosaico.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    print_json,
    print_result,
    print_status,
    warn_failed_plugin,
)
from mosaico.core.extras import require_extra
from mosaico.harness.commands import run_command
from mosaico.llm.conversation import Provider

if TYPE_CHECKING:
    from mosaico.harness.mcp.plan_builder import TaskSelection
    from mosaico.harness.mcp.types import McpReport
    from mosaico.harness.reports.view import RunReportView

cli = CommandGroup(
    "ot-bench", help="Evaluate models and MCP servers, and measure the cost of their tools."
)

Files = Annotated[
    list[str], typer.Argument(metavar="FILE", help="Benchmark files or glob patterns.")
]
OptionalFiles = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="Benchmark files or glob patterns."),
]
ResultFile = Annotated[
    Path, typer.Argument(metavar="RESULT", help="Result file of `ot-bench run`.")
]
SecretsFile = Annotated[
    Path | None,
    typer.Option(
        "--secrets",
        help="File with the values of variables (default: config/bench-secrets.yaml).",
    ),
]
MarkdownFile = Annotated[
    Path | None, typer.Option("--markdown", help="Write the results as Markdown to this file.")
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Also show the tokens of each request, and every tool."),
]


class SelectionOptions(NamedTuple):
    """The options that select tasks of benchmark files."""

    scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            "-s",
            help="Run only scenarios whose name matches this pattern. Repeatable.",
        ),
    ] = None
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task", "-t", help="Run only tasks whose name matches this pattern. Repeatable."
        ),
    ] = None
    tags: Annotated[
        list[str] | None,
        typer.Option(
            "--tags",
            "--tag",
            help="Run only tasks with one of these tags or tag patterns, separated by commas.",
        ),
    ] = None

    def selection(self) -> "TaskSelection":
        from mosaico.harness.mcp.plan_builder import TaskSelection

        options = self.tags or ()
        tags = [tag.strip() for option in options for tag in option.split(",") if tag.strip()]
        return TaskSelection(scenarios=self.scenario or (), tasks=self.task or (), tags=tags)


@cli.command("run")
def run(
    *,
    files: OptionalFiles = None,
    tasks: SelectionOptions,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="Use this model instead of those in the files. Repeatable."),
    ] = None,
    provider: Annotated[
        Literal["openai", "openai-responses", "anthropic"] | None,
        typer.Option("--provider", help="API of the model server (default: openai)."),
    ] = None,
    base_url: run_command.BaseUrl = None,
    model_options: run_command.ModelOptions,
    trials: run_command.Trials = 1,
    concurrency: run_command.Concurrency = 4,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", min=0.001, max=86_400, help="Time limit of an attempt in seconds."
        ),
    ] = None,
    run_tokens: run_command.RunTokens = None,
    run_usd: run_command.RunUsd = None,
    secrets: SecretsFile = None,
    prices: run_command.PricesFile = None,
    cache: run_command.CacheOptions,
    result: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Result file, YAML or .json (default: tmp/result-TIME.yaml)."
        ),
    ] = None,
    csv: Annotated[
        bool,
        typer.Option("--csv", help="Also write tmp/result-TIME.csv and tmp/result-TIME-calls.csv."),
    ] = False,
    junit: run_command.JunitFile = None,
    html: run_command.HtmlFile = None,
    inspect: run_command.InspectFile = None,
    markdown: MarkdownFile = None,
    resume: run_command.Resume = None,
    min_pass_rate: run_command.MinPassRate = 1.0,
    langfuse: run_command.ToLangfuse = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check the files and options; start no server."),
    ] = False,
    tui: Annotated[
        bool,
        typer.Option("--tui", help="Choose a file from the favorites in config/ot-bench.yaml."),
    ] = False,
    verbose: Verbose = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print each request and answer to standard error.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Refuse a file with a task that cannot run, instead of only this task."
        ),
    ] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", help="Show progress without colors.")
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Run the tasks of benchmark files, evaluate the answers, and report their cost.

    Model keys are read from bench-secrets.yaml or the environment: OPENROUTER_API_KEY, with another
    --base-url OPENAI_API_KEY, or ANTHROPIC_API_KEY; --langfuse reads LANGFUSE_PUBLIC_KEY and
    LANGFUSE_SECRET_KEY. Exit codes: 0 the gate passed, 1 the pass rate is too low, 2 invalid
    configuration, a missing file or no task, 3 an attempt errored or was not reached, or
    none has a verdict, 130 interrupted.
    """
    if not dry_run:
        require_extra("harness", "the commands of ot-bench")
    import os
    from datetime import UTC, datetime

    from mosaico.core.text import count_noun
    from mosaico.harness.limits import BudgetLimits
    from mosaico.harness.mcp.cli.file_picker import resolve_files
    from mosaico.harness.mcp.cli.run import McpRunOptions, make_plan, prepare, run_files
    from mosaico.harness.mcp.plan_builder import PlanOverrides
    from mosaico.harness.mcp.summary import gate_figures
    from mosaico.harness.result_file import result_of

    _load_evaluators()
    now = datetime.now(UTC)
    resume = result_of(resume) if resume else None
    if tui:
        from mosaico.harness.mcp.cli.file_picker import pick_favorite

        files = [str(pick_favorite(os.environ))]
    if not files:
        raise terminal.WrongUsage("no file is named", hint="name benchmark files, or add --tui")
    if not all(model or ()):
        raise terminal.WrongUsage("a model has no name", hint="write its name after --model")
    options = McpRunOptions(
        files=resolve_files(files),
        selection=tasks.selection(),
        overrides=PlanOverrides(
            models=model or (),
            timeout_s=timeout,
            provider=Provider(provider) if provider else None,
            base_url=base_url,
            turn_settings=model_options.turn_settings(),
        ),
        trials=trials,
        concurrency=concurrency,
        run_budget=BudgetLimits(tokens=run_tokens, cost_usd=run_usd),
        secrets=secrets,
        prices=prices,
        cache=cache.turn_cache(),
        output=result or resume,
        reports=[path for path in (junit, html, inspect, markdown) if path is not None],
        csv=csv,
        resume=resume,
        trace=trace,
        quiet=quiet,
        no_color=no_color,
        strict=strict,
    )
    if dry_run:
        plan = make_plan(options, environment=os.environ, now=now)
        for refused in plan.refused_tasks():
            terminal.print_warning(f"{refused.name} cannot run: {refused.refusal}")
        attempts = count_noun(len(plan.missing_attempts()), "attempt")
        print_status(f"{attempts} would be made; no server was started")
        return
    export = None
    if langfuse:
        from mosaico.harness.langfuse_export import exporter
        from mosaico.harness.mcp.langfuse_export import export_run

        export = exporter(export_run, os.environ, options.files[0].stem)

    from functools import partial

    from mosaico.harness.commands.progress import is_shown_live

    prepared = prepare(options, environment=os.environ, now=now)
    write = partial(_write_reports, junit=junit, html=html, inspect=inspect, markdown=markdown)

    def show(report: "McpReport") -> None:
        write(report, prepared.csv_file)
        # Attempts of a resumed or quiet run were not shown before.
        was_shown = is_shown_live() and not quiet and resume is None
        _print_report(report, output, verbose=verbose, attempts=not was_shown)

    run_command.run_to_exit(
        lambda: run_files(prepared),
        show=show,
        export=export,
        figures=gate_figures,
        min_pass_rate=min_pass_rate,
    )


@cli.command("list")
def list_tasks(
    *,
    files: Files,
    tasks: SelectionOptions,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the tasks of benchmark files. Variables need no value.

    Exit codes: 0 listed, 2 missing or invalid file, or no matching task.
    """
    import os

    from mosaico.core.console.table import field, print_page
    from mosaico.harness.mcp.cli.run import inspect_files
    from mosaico.harness.mcp.loader import require_valid
    from mosaico.harness.mcp.plan_builder import ModelKeys, PlanOverrides, plan_tasks

    _load_evaluators()
    inspected = inspect_files(files, None, os.environ)
    require_valid(inspected)
    planned_tasks = plan_tasks(inspected, tasks.selection(), PlanOverrides(), ModelKeys())
    items = [planned.row() for planned in planned_tasks]
    names = ("file", "scenario", "task", "type", "model", "servers", "tags")
    print_page({"items": items, "nextCursor": None}, [field(name) for name in names], output)


@cli.command("validate")
def validate(
    *,
    files: Files,
    secrets: SecretsFile = None,
    strict: run_command.Strict = False,
    servers: Annotated[
        bool,
        typer.Option(
            "--servers", help="Start the servers, too, and check their tools for model APIs."
        ),
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Check benchmark files for errors, and their names and tags for the conventions.

    A variable without a value is a warning. Exit codes: 0 no errors, 1 warnings with --strict, 2
    errors or a missing file.
    """
    import os

    from mosaico.core.text import count_noun
    from mosaico.harness.lint import report_findings
    from mosaico.harness.mcp.cli.run import check_servers, inspect_files

    _load_evaluators()
    inspected = inspect_files(files, secrets, os.environ)
    if servers:
        inspected = check_servers(inspected, secrets, os.environ)
    findings = [finding for file in inspected for finding in file.located_findings()]
    report_findings(
        findings, checked=count_noun(len(inspected), "file"), strict=strict, output=output
    )


@cli.command("report")
def report(
    *,
    result: ResultFile,
    junit: run_command.JunitFile = None,
    html: run_command.HtmlFile = None,
    inspect: run_command.InspectFile = None,
    markdown: MarkdownFile = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv", help="Write a row per attempt to this file, and a row per request to …-calls."
        ),
    ] = None,
    verbose: Verbose = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show a recorded run: attempts, failures, cost of context, figures.

    Exit codes: 0 shown, 2 missing or invalid result file.
    """
    from mosaico.harness.mcp.result_file import read_report

    recorded = read_report(result)
    _write_reports(recorded, csv, junit=junit, html=html, inspect=inspect, markdown=markdown)
    _print_report(recorded, output, verbose=verbose)


@cli.command("schema")
def schema() -> None:
    """Print the JSON Schema of benchmark files, for editors.

    Exit codes: 0 printed.
    """
    import json

    from mosaico.harness.mcp.config import benchmark_schema

    print_result(json.dumps(benchmark_schema(), indent=2))


def _load_view(path: Path) -> "RunReportView":
    from mosaico.harness.mcp.report_view import run_view
    from mosaico.harness.mcp.result_file import read_report

    return run_view(read_report(path))


run_command.add_transcript_commands(cli, _load_view)


def main() -> None:
    """Run the command that the arguments of this process name."""
    run_program(cli, lambda: version_of("ot-bench"))


def _load_evaluators() -> None:
    from mosaico.harness.mcp.evaluator_registry import load_evaluators

    load_evaluators(warn_failed_plugin)


def _print_report(
    report: "McpReport", output: OutputFormat, *, verbose: bool, attempts: bool = True
) -> None:
    if output is OutputFormat.JSON:
        from mosaico.harness.mcp.result_file import report_document

        print_json(report_document(report))
        return
    from mosaico.harness.mcp.report_view import run_view
    from mosaico.harness.reports.text import terminal_report

    view = run_view(report, verbose=verbose)
    print_result(terminal_report(view, attempts=attempts).removesuffix("\n"))


def _write_reports(
    report: "McpReport",
    csv: Path | None,
    *,
    junit: Path | None,
    html: Path | None,
    inspect: Path | None,
    markdown: Path | None,
) -> None:
    from mosaico.harness.mcp.report_view import calls_csv, run_view, tasks_csv
    from mosaico.harness.reports.files import write_report, write_reports

    if csv is not None:
        write_report(csv, tasks_csv(report))
        write_report(csv.with_name(f"{csv.stem}-calls{csv.suffix}"), calls_csv(report))
    write_reports(run_view(report), junit=junit, html=html, inspect=inspect, markdown=markdown)


if __name__ == "__main__":
    main()
