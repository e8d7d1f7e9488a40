"""`ot-bench`, and the same as `mosaico ot-bench`: models and MCP servers, from YAML."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.core.console import terminal
from app.core.console.terminal import (
    CommandGroup,
    Format,
    OutputFormat,
    print_json,
    print_result,
    print_status,
    print_warning,
)
from app.harness import frame
from app.llm.conversation import Provider

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.harness.mcp.loader import McpFile
    from app.harness.mcp.picking import Choice
    from app.harness.mcp.types import McpReport

cli = CommandGroup(
    "ot-bench",
    help="How well models work with MCP servers, and what these cost.",
)

Files = Annotated[
    list[str], typer.Argument(metavar="FILE…", help="Benchmark files, or patterns of them.")
]
SomeFiles = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE…", help="Benchmark files, or patterns of them."),
]
SecretsFile = Annotated[
    Path | None,
    typer.Option("--secrets", help="Values of variables; config/bench-secrets.yaml if not given."),
]
Scenarios = Annotated[
    list[str] | None,
    typer.Option("--scenario", "-s", help="Only scenarios of that pattern; may be repeated."),
]
Tasks = Annotated[
    list[str] | None,
    typer.Option("--task", "-t", help="Only tasks of that pattern; may be repeated."),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tags", "--tag", help="Only tasks with one of these tags: a,b; patterns, too."),
]

HtmlFile = Annotated[
    Path | None, typer.Option("--html", help="Write everything as one page there.")
]


@cli.command("run")
def run(
    *,
    files: SomeFiles = None,
    scenario: Scenarios = None,
    task: Tasks = None,
    tags: Tags = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Instead of the files'; may be repeated.")
    ] = None,
    provider: Annotated[
        Literal["openai", "openai-responses", "anthropic"] | None,
        typer.Option("--provider", help="How the server of models is spoken to."),
    ] = None,
    base_url: frame.BaseUrl = None,
    trials: frame.Trials = 1,
    concurrency: frame.Concurrency = 4,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.001, max=86_400, help="Seconds of a task.")
    ] = None,
    run_tokens: frame.RunTokens = None,
    run_usd: frame.RunUsd = None,
    secrets: SecretsFile = None,
    prices: frame.PricesFile = None,
    result: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The result, YAML or .json; tmp/result-TIME.yaml if not given."
        ),
    ] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Write tmp/result-TIME.csv and …-calls.csv, too.")
    ] = False,
    junit: frame.JunitFile = None,
    html: HtmlFile = None,
    resume: frame.Resume = None,
    min_pass_rate: frame.MinPassRate = 1.0,
    langfuse: frame.ToLangfuse = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, start and ask nothing.")
    ] = False,
    tui: Annotated[
        bool, typer.Option("--tui", help="Pick a file from the favorites of config/ot-bench.yaml.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show input per call, and every tool.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Tell each request and answer as it happens.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Tell no progress.")] = False,
    no_color: Annotated[  # noqa: ARG001 - nothing is coloured
        bool, typer.Option("--no-color", help="Accepted for scripts; nothing is coloured.")
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Run the tasks of benchmark files, evaluate the answers, and say what they cost.

    Keys of models come from bench-secrets.yaml or the environment: OPENROUTER_API_KEY, with another
    --base-url OPENAI_API_KEY, or ANTHROPIC_API_KEY; those of --langfuse from LANGFUSE_PUBLIC_KEY
    and LANGFUSE_SECRET_KEY. Exit codes: 0 the gate passes, 1 it does not, 2 configuration, a missing
    file or no task, 3 a task errored or was not reached, 130 interrupted.
    """
    import os
    from datetime import UTC, datetime

    from app.harness.budget import BudgetLimits
    from app.harness.mcp.command import McpRunOptions, make_plan, prepare, run_files
    from app.harness.mcp.picking import find_files
    from app.harness.mcp.planning import Overrides, Selection
    from app.harness.mcp.recordings import result_of
    from app.harness.mcp.summary import figures

    _load_evaluators()
    now = datetime.now(UTC)
    resume = result_of(resume) if resume else None
    if tui:
        files = [str(_picked())]
    if not files:
        raise terminal.WrongUsage("no file is named", hint="name benchmark files, or add --tui")
    if not all(model or ()):
        raise terminal.WrongUsage("a model has no name", hint="name it after --model")
    options = McpRunOptions(
        files=find_files(files),
        selection=Selection(scenarios=scenario or (), tasks=task or (), tags=_separated(tags)),
        overrides=Overrides(
            models=model or (),
            timeout_s=timeout,
            provider=Provider(provider) if provider else None,
            base_url=base_url,
        ),
        trials=trials,
        concurrency=concurrency,
        budget_limits=BudgetLimits(tokens=run_tokens, cost_usd=run_usd),
        secrets=secrets,
        prices=prices,
        output=result or resume,
        pages=[path for path in (junit, html) if path is not None],
        csv=csv,
        resume=resume,
        trace=trace,
        quiet=quiet,
    )
    if dry_run:
        plan = make_plan(options, environment=os.environ, now=now)
        print_status(f"{len(plan.missing())} attempts would be made; nothing was started or asked")
        return
    export = None
    if langfuse:
        from app.harness.langfuse_export import exporter
        from app.harness.mcp.langfuse_export import export_run

        export = exporter(export_run, os.environ, options.files[0].stem)

    ready = prepare(options, environment=os.environ, now=now)

    def show(made: "McpReport") -> None:
        _write_reports(made, ready.sheet, junit=junit, html=html)
        _show(made, output, verbose=verbose)

    frame.run_to_its_exit(
        lambda: run_files(ready),
        show=show,
        export=export,
        figures=figures,
        least=min_pass_rate,
    )


@cli.command("list")
def list_tasks(
    *,
    files: Files,
    scenario: Scenarios = None,
    task: Tasks = None,
    tags: Tags = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the tasks of benchmark files. Variables need no value for it.

    Exit codes: 0 listed, 2 no such file, a file that cannot be used, or no task of these names.
    """
    from app.core.console.table import field, print_page
    from app.harness.mcp.loader import require_usable
    from app.harness.mcp.planning import Keys, Overrides, Selection, plan_tasks

    found = _inspected(files)
    require_usable(found)
    chosen = Selection(scenarios=scenario or (), tasks=task or (), tags=_separated(tags))
    items = [
        {
            "file": each.file,
            "scenario": each.scenario,
            "task": each.name,
            "type": each.type.value,
            "model": each.model,
            "servers": list(each.server_names()),
            "tags": list(each.tags),
        }
        for each in plan_tasks(found, chosen, Overrides(), Keys())
    ]
    names = ("file", "scenario", "task", "type", "model", "servers", "tags")
    print_page({"items": items, "nextCursor": None}, [field(name) for name in names], output)


@cli.command("validate")
def validate(
    *,
    files: Files,
    strict: frame.Strict = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Say what is wrong with benchmark files, and what is against the conventions of names and tags.

    Variables need no value for it. Exit codes: 0 nothing but warnings, 1 a warning with --strict, 2
    an error or no such file.
    """
    from app.harness.mcp.loader import Severity, pointer

    found = _inspected(files)
    findings = [(file, each) for file in found for each in file.findings]
    if output is OutputFormat.JSON:
        items = [
            {
                "file": file.name,
                "line": each.place.line,
                "column": each.place.column,
                "severity": each.severity.value,
                "text": each.text,
            }
            for file, each in findings
        ]
        print_json({"items": items, "nextCursor": None})
    else:
        for file, each in findings:
            print_result(
                f"{pointer(file, each)}: {each.severity}: {terminal.escape_line(each.text)}"
            )
    print_status(f"{len(found)} files, {len(findings)} findings")
    frame.leave_with_findings(
        errors=any(each.severity is Severity.ERROR for _, each in findings),
        warnings=strict and bool(findings),
    )


@cli.command("report")
def report(
    *,
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="A file that `ot-bench run` wrote.")
    ],
    junit: frame.JunitFile = None,
    html: HtmlFile = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Write a row per attempt there, and …-calls.csv.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show input per call, and every tool.")
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show a recorded run: tasks, what failed, the cost of context, figures.

    Exit codes: 0 shown, 2 no such file or no result in it.
    """
    from app.harness.mcp.recordings import read_report

    found = read_report(result)
    _write_reports(found, csv, junit=junit, html=html)
    _show(found, output, verbose=verbose)


@cli.command("schema")
def schema() -> None:
    """Print the JSON Schema of benchmark files, for editors.

    Exit codes: 0 printed.
    """
    import json

    from app.harness.mcp.schema import mcp_schema

    print_result(json.dumps(mcp_schema(), indent=2))


def main() -> None:
    """Run a command of the arguments of this process."""
    frame.run_command(cli)


def _load_evaluators() -> None:
    from app.harness.mcp.evaluating import load_evaluators

    load_evaluators(
        lambda each: print_warning(f"the plugin {each.name} was not loaded: {each.error}")
    )


def _inspected(files: "Sequence[str]") -> "list[McpFile]":
    from app.harness.mcp.lint import lint
    from app.harness.mcp.loader import inspect_file
    from app.harness.mcp.picking import find_files
    from app.harness.mcp.secrets import Secrets

    _load_evaluators()
    paths = find_files(files)
    return [lint(inspect_file(path, Secrets(), {}, expanded=False)) for path in paths]


def _separated(tags: "Sequence[str] | None") -> list[str]:
    return [tag.strip() for each in tags or () for tag in each.split(",") if tag.strip()]


def _picked() -> Path:
    """The file that somebody picks. A pipe is nobody."""
    import os

    from app.harness.mcp.picking import pick_file, read_favourites

    favourites = read_favourites(os.environ)
    if not (terminal.is_interactive(sys.stdin) and terminal.is_interactive(sys.stdout)):
        raise terminal.WrongUsage(
            "--tui asks on a terminal, and this is none", hint="name the file instead of --tui"
        )
    picked = pick_file(favourites, _ask)
    if picked is None:
        print_status("nothing was chosen")
        raise typer.Exit(0)
    return picked


def _ask(question: str, choices: "Sequence[Choice]") -> "Choice | None":
    import questionary

    chosen: Choice | None = questionary.select(
        question,
        choices=[
            questionary.Choice(terminal.escape_line(each.label), value=each) for each in choices
        ],
    ).ask()
    return chosen


def _show(made: "McpReport", output: OutputFormat, *, verbose: bool) -> None:
    if output is OutputFormat.JSON:
        from app.harness.mcp.recordings import document_of

        print_json(document_of(made))
        return
    from app.harness.mcp.reports.console import print_report

    print_report(made, verbose=verbose)


def _write_reports(
    made: "McpReport", csv: Path | None, *, junit: Path | None, html: Path | None
) -> None:
    from app.harness.mcp.reports.html import html_report
    from app.harness.mcp.reports.junit import junit_report
    from app.harness.mcp.reports.spreadsheet import calls_csv, tasks_csv

    if csv is not None:
        _write(csv, tasks_csv(made))
        _write(csv.with_name(f"{csv.stem}-calls{csv.suffix}"), calls_csv(made))
    if junit is not None:
        _write(junit, junit_report(made))
    if html is not None:
        _write(html, html_report(made))


def _write(path: Path, text: str) -> None:
    from app.core.console.output_files import require_file, write_text

    require_file(path)
    write_text(path, text)
    print_status(f"written to {path}")


if __name__ == "__main__":
    main()
