"""`bashkit-eval`, and the same as `mosaico bash-eval`: how well a model works in a bash."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

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
from app.harness.gate import HarnessExit
from app.llm.conversation import Provider

if TYPE_CHECKING:
    from app.harness.bash.dataset import Finding
    from app.harness.bash.replay import Replayed
    from app.harness.bash.types import EvalReport

cli = CommandGroup(
    "bash-eval",
    help="How well a model works in a sandboxed bash.",
)

Result = Annotated[
    Path, typer.Argument(metavar="RESULT.json", help="A recorded run, ours or of the original.")
]
Save = Annotated[Path | None, typer.Option("--save", help="Folder to write the new result to.")]


class ReportFormat(StrEnum):
    """How a run is shown."""

    TERMINAL = "terminal"
    JSON = "json"
    MARKDOWN = "markdown"
    ORIGINAL = "markdown-original"
    HTML = "html"


@cli.command("run")
def run(
    *,
    dataset: Annotated[Path, typer.Argument(metavar="DATASET.jsonl", help="Tasks, one a line.")],
    provider: Annotated[Provider, typer.Option("--provider", help="How the server is spoken to.")],
    model: Annotated[
        str, typer.Option("--model", help="Name of the model; of scripted, the file to play.")
    ],
    base_url: frame.BaseUrl = None,
    categories: Annotated[
        list[str] | None, typer.Option("--category", help="Only tasks of it; may be repeated.")
    ] = None,
    tasks: Annotated[
        list[str] | None, typer.Option("--task", help="Only the task of that id; may be repeated.")
    ] = None,
    trials: frame.Trials = 1,
    concurrency: frame.Concurrency = 4,
    max_turns: Annotated[
        int, typer.Option("--max-turns", min=1, max=1000, help="Turns of a task.")
    ] = 10,
    max_output_tokens: Annotated[
        int | None, typer.Option("--max-output-tokens", min=1, help="Of one answer.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", min=0, max=2, help="Left out unless given.")
    ] = None,
    task_seconds: Annotated[
        float, typer.Option("--task-seconds", min=0.001, help="Time limit of a task.")
    ] = 600.0,
    call_seconds: Annotated[
        float, typer.Option("--call-seconds", min=0.001, help="Time limit of a call of bash.")
    ] = 30.0,
    run_seconds: Annotated[
        float | None, typer.Option("--run-seconds", min=0.001, help="Time limit of the run.")
    ] = None,
    task_tokens: Annotated[
        int | None, typer.Option("--task-tokens", min=1, help="Token limit of a task.")
    ] = None,
    run_tokens: frame.RunTokens = None,
    task_usd: Annotated[
        float | None, typer.Option("--task-usd", min=0, help="Cost limit of a task.")
    ] = None,
    run_usd: frame.RunUsd = None,
    prices: frame.PricesFile = None,
    judge_provider: Annotated[
        Provider | None, typer.Option("--judge-provider", help="As --provider when left out.")
    ] = None,
    judge_model: Annotated[
        str | None, typer.Option("--judge-model", help="Model that answers llm_judge.")
    ] = None,
    judge_url: Annotated[
        str | None, typer.Option("--judge-url", help="Server of the judge, if another.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Folder of answers, asked once only.")
    ] = None,
    only_cached: Annotated[
        bool, typer.Option("--only-cached", help="Ask nothing that --cache does not hold.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option("--save", help="Folder for the result, as JSON and Markdown.")
    ] = None,
    resume: frame.Resume = None,
    min_pass_rate: frame.MinPassRate = 1.0,
    junit: frame.JunitFile = None,
    langfuse: frame.ToLangfuse = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Let a model work on the tasks of a dataset, each in a sandbox, and score what it did.

    Keys come from ANTHROPIC_API_KEY and OPENAI_API_KEY; those of --langfuse from LANGFUSE_PUBLIC_KEY
    and LANGFUSE_SECRET_KEY, its address from LANGFUSE_BASE_URL. Exit codes: 0 the gate passes, 1 it does
    not, 2 configuration or no such file, 3 a task errored or was not reached, 130 interrupted.
    """
    import os
    from datetime import UTC, datetime

    from app.core.console.input_files import InvalidInput
    from app.core.console.output_files import require_file
    from app.harness.bash.agent import TaskLimits
    from app.harness.bash.run import BashRunOptions, ModelChoice, run_dataset
    from app.harness.bash.runner import RunLimits
    from app.harness.bash.sandbox import SandboxLimits
    from app.harness.bash.summary import figures
    from app.harness.budget import BudgetLimits
    from app.llm.conversation import TurnSettings

    if only_cached and not cache:
        raise terminal.WrongUsage("nothing is cached", hint="add --cache FOLDER")
    judge = None
    if judge_model is not None:
        judge = ModelChoice(
            provider=judge_provider or provider,
            model=judge_model,
            base_url=judge_url or base_url,
        )
    options = BashRunOptions(
        dataset=dataset,
        model=ModelChoice(
            provider=provider,
            model=model,
            base_url=base_url,
            settings=TurnSettings(max_output_tokens=max_output_tokens, temperature=temperature),
        ),
        judge=judge,
        categories=categories or (),
        task_ids=tasks or (),
        trials=trials,
        limits=RunLimits(
            concurrency=concurrency,
            time_s=run_seconds,
            task=TaskLimits(
                max_turns=max_turns,
                time_s=task_seconds,
                sandbox=SandboxLimits(timeout_s=call_seconds),
            ),
            task_limits=BudgetLimits(tokens=task_tokens, cost_usd=task_usd),
        ),
        budget_limits=BudgetLimits(tokens=run_tokens, cost_usd=run_usd),
        prices=prices,
        cache=cache,
        only_cached=only_cached,
        save=save,
        resume=resume,
    )
    export = None
    if langfuse:
        from app.harness.bash.langfuse_export import export_run
        from app.harness.langfuse_export import exporter

        export = exporter(export_run, os.environ, dataset.stem)
    if junit is not None:
        require_file(junit)
    _load_checks()
    try:
        frame.run_to_its_exit(
            lambda: run_dataset(options, environment=os.environ, now=datetime.now(UTC)),
            show=lambda made: _show_run(made, junit, output),
            export=export,
            figures=figures,
            least=min_pass_rate,
        )
    except InvalidInput as wrong:
        raise terminal.WrongUsage(wrong.detail, **wrong.extra) from None


@cli.command("report")
def report(
    result: Result,
    form: Annotated[
        ReportFormat,
        typer.Option(
            "--format",
            help="How to show it; markdown-original is byte for byte that of the original.",
        ),
    ] = ReportFormat.TERMINAL,
    file: Annotated[
        Path | None, typer.Option("--file", help="Write it there instead of printing it.")
    ] = None,
) -> None:
    """Show a recorded run: figures, categories, healthy profile, friction signals, tasks.

    Exit codes: 0 shown, 2 no such file or no recorded run in it.
    """
    from app.core.console.output_files import write_text
    from app.harness.bash.recordings import read_report
    from app.harness.bash.reports import render

    text = render(read_report(result), form)
    if file is None:
        print_result(text.removesuffix("\n"))
        return
    write_text(file, text)
    print_status(f"written to {file}")


@cli.command("replay")
def replay_command(result: Result, save: Save = None, output: Format = OutputFormat.TABLE) -> None:
    """Execute the recorded commands in fresh sandboxes and say how far the outcome agrees.

    Exit codes: 0 every steady check says what was recorded, 1 one does not, 2 no recorded run.
    """
    from app.harness.bash.recordings import read_report
    from app.harness.bash.replay import replay

    _load_checks()
    _finish(replay(read_report(result)), save, output)


@cli.command("rescore")
def rescore_command(result: Result, save: Save = None, output: Format = OutputFormat.TABLE) -> None:
    """Check the recorded calls again, with the files of a sandbox that ran them anew.

    Exit codes: 0 every steady check says what was recorded, 1 one does not, 2 no recorded run.
    """
    from app.harness.bash.recordings import read_report
    from app.harness.bash.replay import rescore

    _load_checks()
    _finish(rescore(read_report(result)), save, output)


@cli.command("compare")
def compare_command(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULT.json…", help="Two or more recorded runs.")
    ],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Set recorded runs side by side, over the tasks whose content is the same in all of them.

    Exit codes: 0 compared, 2 fewer than two runs, no recorded run, or no task in common.
    """
    from dataclasses import asdict

    from app.harness.bash.compare import compare
    from app.harness.bash.recordings import read_report
    from app.harness.bash.reports.comparison import comparison_report

    if len(results) < 2:  # noqa: PLR2004 - one run has nobody beside it
        raise terminal.WrongUsage("one run cannot be compared", hint="name two or more results")
    found = compare([read_report(path) for path in results])
    if output is OutputFormat.JSON:
        print_json(asdict(found))
    else:
        print_result(comparison_report(found).removesuffix("\n"))


@cli.command("lint")
def lint_command(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET.jsonl", help="Tasks, one a line.")],
    strict: frame.Strict = False,  # noqa: FBT002
    output: Format = OutputFormat.TABLE,
) -> None:
    """Say what is wrong with a dataset: ids, checks, patterns, what a clock can meet.

    Exit codes: 0 nothing but warnings, 1 a warning with --strict, 2 an error or no such file.
    """
    from dataclasses import asdict

    from app.harness.bash.dataset import Severity, inspect_dataset
    from app.harness.bash.lint import lint

    _load_checks()
    found = inspect_dataset(dataset)
    findings = lint(found)
    if output is OutputFormat.JSON:
        print_json({"items": [asdict(finding) for finding in findings], "nextCursor": None})
    else:
        _print_findings(dataset, findings)
    worst = {finding.severity for finding in findings}
    print_status(f"{len(found.tasks)} tasks, {len(findings)} findings")
    frame.leave_with_findings(errors=Severity.ERROR in worst, warnings=strict and bool(findings))


def main() -> None:
    """Run a command of the arguments of this process."""
    if sys.argv[1:] == ["--version"]:
        _print_version()
    frame.run_command(cli)


def _print_version() -> NoReturn:
    from importlib.metadata import version

    print_result(f"bashkit-eval of mosaico {version('mosaico')}, bashkit {version('bashkit')}")
    raise SystemExit


def _load_checks() -> None:
    from app.harness.bash.checking import load_checks

    load_checks(
        lambda plugin: print_warning(f"the plugin {plugin.name} was not loaded: {plugin.error}")
    )


def _show_run(made: "EvalReport", junit: Path | None, output: OutputFormat) -> None:
    from app.core.console.output_files import write_text
    from app.harness.bash.reports import render
    from app.harness.bash.reports.junit import junit_report

    if junit is not None:
        write_text(junit, junit_report(made))
    print_result(
        render(made, "json" if output is OutputFormat.JSON else "terminal").removesuffix("\n")
    )


def _finish(found: "Replayed", save: Path | None, output: OutputFormat) -> None:
    """Print how far two runs agree and what changed; keep the new one when asked."""
    from dataclasses import asdict

    from app.harness.bash.reports.agreement import agreement_report

    if output is OutputFormat.JSON:
        print_json(asdict(found.agreement))
    else:
        print_result(agreement_report(found).removesuffix("\n"))
    if save is not None:
        _save(found.report, save)
    if found.agreement.checks.same < found.agreement.checks.all:
        raise typer.Exit(HarnessExit.BELOW)


def _save(report: "EvalReport", folder: Path) -> None:
    from app.core.console.output_files import require_folder
    from app.harness.bash.recordings import file_stem, write_report

    require_folder(folder)
    path = folder / f"{file_stem(report)}-{report.settings['made_by']}.json"
    write_report(report, path)
    print_status(f"written to {path}")


def _print_findings(dataset: Path, findings: "list[Finding]") -> None:
    for finding in findings:
        place = f"{dataset}:{finding.line}" if finding.line else str(dataset)
        print_result(f"{place}: {finding.severity}: {terminal.escape_line(finding.text)}")


if __name__ == "__main__":
    main()
