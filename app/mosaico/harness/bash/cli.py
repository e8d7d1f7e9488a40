"""`bashkit-eval` and `mosaico bash-eval`: evaluate models in a sandboxed bash."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mosaico.core.console import terminal
from mosaico.core.console.program import run_program
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
from mosaico.harness.commands.program_version import print_version
from mosaico.harness.limits import DEFAULT_TOOL_CHARS
from mosaico.harness.results import HarnessExit
from mosaico.llm.conversation import Provider

if TYPE_CHECKING:
    from mosaico.harness.bash.replay import ReplayedRun
    from mosaico.harness.bash.types import EvalReport
    from mosaico.harness.reports.view import RunReportView

cli = CommandGroup("bash-eval", help="Evaluate how well a model works in a sandboxed bash.")

DatasetFile = Annotated[
    Path, typer.Argument(metavar="DATASET.jsonl", help="Dataset with one task per line.")
]
ResultFile = Annotated[
    Path,
    typer.Argument(
        metavar="RESULT.json",
        help="Result file of `bashkit-eval run --save` or of the original evaluation.",
    ),
]
SaveFolder = Annotated[
    Path | None, typer.Option("--save", help="Write the new result file to this folder.")
]


@cli.command("run")
def run(
    *,
    dataset: DatasetFile,
    provider: Annotated[
        Provider, typer.Option("--provider", help="API of the model server, or a script to play.")
    ],
    model: Annotated[
        str, typer.Option("--model", help="Model name; for provider scripted the script file.")
    ],
    base_url: run_command.BaseUrl = None,
    categories: Annotated[
        list[str] | None,
        typer.Option("--category", help="Run only the tasks of this category. Repeatable."),
    ] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option("--task", help="Run only the task with this ID. Repeatable."),
    ] = None,
    trials: run_command.Trials = 1,
    concurrency: run_command.Concurrency = 4,
    max_turns: Annotated[
        int, typer.Option("--max-turns", min=1, max=1000, help="Maximum turns per attempt.")
    ] = 10,
    tool_chars: Annotated[
        int,
        typer.Option(
            "--tool-chars",
            min=100,
            help="Characters of the output of one bash call that the model reads.",
        ),
    ] = DEFAULT_TOOL_CHARS,
    model_options: run_command.ModelOptions,
    task_seconds: Annotated[
        float,
        typer.Option("--task-seconds", min=0.001, help="Time limit of an attempt in seconds."),
    ] = 600.0,
    call_seconds: Annotated[
        float,
        typer.Option("--call-seconds", min=0.001, help="Time limit of a bash call in seconds."),
    ] = 30.0,
    run_seconds: Annotated[
        float | None,
        typer.Option("--run-seconds", min=0.001, help="Time limit of the whole run in seconds."),
    ] = None,
    task_tokens: Annotated[
        int | None, typer.Option("--task-tokens", min=1, help="Token limit of an attempt.")
    ] = None,
    task_usd: Annotated[
        float | None,
        typer.Option("--task-usd", min=0, help="Cost limit of an attempt in US dollars."),
    ] = None,
    budget: run_command.BudgetOptions,
    prices: run_command.PricesFile = None,
    judge_provider: Annotated[
        Provider | None,
        typer.Option("--judge-provider", help="API of the judge server (default: --provider)."),
    ] = None,
    judge_model: Annotated[
        str | None, typer.Option("--judge-model", help="Model that scores the llm_judge checks.")
    ] = None,
    judge_url: Annotated[
        str | None,
        typer.Option("--judge-url", help="Base URL of the judge server (default: --base-url)."),
    ] = None,
    cache: run_command.CacheOptions,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Write the result as JSON and Markdown to this folder."),
    ] = None,
    resume: run_command.Resume = None,
    min_pass_rate: run_command.MinPassRate = 1.0,
    reports: run_command.ReportFiles,
    langfuse: run_command.ToLangfuse = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Run a model on the tasks of a dataset, each in its own sandbox, and score its work.

    API keys are read from ANTHROPIC_API_KEY and OPENAI_API_KEY; --langfuse reads LANGFUSE_PUBLIC_KEY,
    LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL. Exit codes: 0 the gate passed, 1 the pass rate is too
    low, 2 invalid configuration or missing file, 3 an attempt errored or was not reached, or
    none has a score, 130 interrupted.
    """
    require_extra("harness", "the commands of bashkit-eval")
    import os
    from datetime import UTC, datetime
    from functools import partial

    from mosaico.core.console.files import InvalidInput, require_file
    from mosaico.harness.bash.agent import AttemptLimits
    from mosaico.harness.bash.attempt_runner import RunLimits
    from mosaico.harness.bash.run import BashRunOptions, ModelChoice, run_dataset
    from mosaico.harness.bash.sandbox import SandboxLimits
    from mosaico.harness.bash.summary import gate_figures
    from mosaico.harness.limits import BudgetLimits
    from mosaico.harness.reports.files import write_reports

    options = BashRunOptions(
        dataset=dataset,
        model=ModelChoice(
            provider=provider,
            model=model,
            base_url=base_url,
            settings=model_options.turn_settings(),
        ),
        judge=ModelChoice(
            provider=judge_provider or provider,
            model=judge_model,
            base_url=judge_url or base_url,
        )
        if judge_model is not None
        else None,
        categories=categories or (),
        task_ids=tasks or (),
        trials=trials,
        limits=RunLimits(
            concurrency=concurrency,
            time_s=run_seconds,
            task=AttemptLimits(
                max_turns=max_turns,
                tool_chars=tool_chars,
                time_s=task_seconds,
                sandbox=SandboxLimits(timeout_s=call_seconds),
            ),
            task_budget=BudgetLimits(tokens=task_tokens, cost_usd=task_usd),
        ),
        run_budget=budget.limits(),
        prices=prices,
        cache=cache.turn_cache(),
        save=save,
        resume=resume,
    )
    export = None
    if langfuse:
        from mosaico.harness.bash.langfuse_export import export_run
        from mosaico.harness.langfuse_export import exporter

        export = exporter(export_run, os.environ, dataset.stem)
    for path in reports.paths:
        require_file(path)
    write = partial(write_reports, **reports._asdict())
    _load_checks()
    try:
        run_command.run_to_exit(
            lambda: run_dataset(options, environment=os.environ, now=datetime.now(UTC)),
            show=lambda report: _show_run(report, write, output, resumed=resume is not None),
            export=export,
            figures=gate_figures,
            min_pass_rate=min_pass_rate,
        )
    except InvalidInput as error:
        raise terminal.WrongUsage(error.detail, **error.extra) from None


@cli.command("report")
def report(
    result: ResultFile,
    format_name: Annotated[
        Literal["terminal", "json", "markdown", "markdown-original", "html", "inspect", "junit"],
        typer.Option(
            "--format",
            help="Format of the report; markdown-original equals that of the original evaluation.",
        ),
    ] = "terminal",
    file: Annotated[
        Path | None, typer.Option("--file", help="Write the report to this file.")
    ] = None,
) -> None:
    """Show a recorded run: attempts, figures, categories, healthy profile, friction signals.

    Exit codes: 0 shown, 2 missing or invalid result file.
    """
    from mosaico.core.console.files import write_text
    from mosaico.harness.bash.report_view import render
    from mosaico.harness.bash.result_file import read_report

    text = render(read_report(result), format_name)
    if file is None:
        print_result(text.removesuffix("\n"))
    else:
        write_text(file, text)
        print_status(f"written to {file}")


def _load_view(path: Path) -> "RunReportView":
    from mosaico.harness.bash.report_view import run_view
    from mosaico.harness.bash.result_file import read_report

    return run_view(read_report(path))


run_command.add_transcript_commands(cli, _load_view)


@cli.command("replay")
def replay_command(
    result: ResultFile, save: SaveFolder = None, output: Format = OutputFormat.TABLE
) -> None:
    """Run the recorded commands in new sandboxes and compare the outcome with the recorded one.

    Exit codes: 0 every stable check agrees, 1 a check differs, 2 missing or invalid result file.
    """
    require_extra("harness", "the commands of bashkit-eval")
    from mosaico.harness.bash.replay import replay

    _replay_with(replay, result, save, output)


@cli.command("rescore")
def rescore_command(
    result: ResultFile, save: SaveFolder = None, output: Format = OutputFormat.TABLE
) -> None:
    """Score the recorded calls again, with the files of a sandbox that replayed them.

    Exit codes: 0 every stable check agrees, 1 a check differs, 2 missing or invalid result file.
    """
    require_extra("harness", "the commands of bashkit-eval")
    from mosaico.harness.bash.replay import rescore

    _replay_with(rescore, result, save, output)


@cli.command("compare")
def compare_command(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULT.json", help="Two or more result files.")
    ],
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", help="Write the comparison as Markdown to this file."),
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Compare recorded runs over the tasks whose content is the same in all of them.

    Exit codes: 0 compared, 2 fewer than two runs, an invalid result file, or no common task.
    """
    from dataclasses import asdict

    from mosaico.core.console.files import write_text
    from mosaico.harness.bash.compare import compare
    from mosaico.harness.bash.comparison_report import comparison_markdown, comparison_report
    from mosaico.harness.bash.result_file import read_report

    if len(results) < 2:  # noqa: PLR2004 - a comparison needs two runs
        raise terminal.WrongUsage(
            "a comparison needs two runs", hint="name two or more result files"
        )
    comparison = compare([read_report(path) for path in results])
    if markdown is not None:
        write_text(markdown, comparison_markdown(comparison))
    if output is OutputFormat.JSON:
        print_json(asdict(comparison))
    else:
        print_result(comparison_report(comparison).removesuffix("\n"))


@cli.command("lint")
def lint_command(
    dataset: DatasetFile,
    strict: run_command.Strict = False,  # noqa: FBT002
    output: Format = OutputFormat.TABLE,
) -> None:
    """Check a dataset: IDs, checks, patterns, and checks that the clock can satisfy by chance.

    Exit codes: 0 no errors, 1 warnings with --strict, 2 errors or a missing file.
    """
    require_extra("harness", "the commands of bashkit-eval")
    from mosaico.core.text import count_noun
    from mosaico.harness.bash.dataset import lint, read_dataset
    from mosaico.harness.lint import report_findings

    _load_checks()
    tasks = read_dataset(dataset)
    findings = [finding.located(dataset) for finding in lint(tasks)]
    report_findings(
        findings, checked=count_noun(len(tasks.tasks), "task"), strict=strict, output=output
    )


def main() -> None:
    """Run the command that the arguments of this process name."""
    run_program(cli, lambda: print_version("bashkit-eval", sandbox="bashkit"))


def _load_checks() -> None:
    from mosaico.harness.bash.check_registry import load_checks

    load_checks(warn_failed_plugin)


def _show_run(
    report: "EvalReport",
    write: "Callable[[RunReportView], None]",
    output: OutputFormat,
    *,
    resumed: bool,
) -> None:
    """Print the report and write its files. Attempts of a resumed run were not shown before."""
    from mosaico.harness.bash.report_view import render, run_view
    from mosaico.harness.commands.progress import is_shown_live
    from mosaico.harness.reports.text import terminal_report

    view = run_view(report)
    write(view)
    if output is OutputFormat.JSON:
        text = render(report, "json")
    else:
        text = terminal_report(view, attempts=resumed or not is_shown_live())
    print_result(text.removesuffix("\n"))


def _replay_with(
    run: "Callable[[EvalReport], ReplayedRun]",
    result: Path,
    save: Path | None,
    output: OutputFormat,
) -> None:
    """Print the agreement of two runs, save the new one, and exit with 1 when a check differs."""
    from dataclasses import asdict

    from mosaico.core.console.files import require_folder
    from mosaico.harness.bash.comparison_report import agreement_report
    from mosaico.harness.bash.result_file import file_stem, read_report, write_report

    _load_checks()
    replayed = run(read_report(result))
    if output is OutputFormat.JSON:
        print_json(asdict(replayed.agreement))
    else:
        print_result(agreement_report(replayed).removesuffix("\n"))
    if save is not None:
        require_folder(save)
        path = save / f"{file_stem(replayed.report)}-{replayed.report.settings['made_by']}.json"
        write_report(replayed.report, path)
        print_status(f"written to {path}")
    if replayed.agreement.checks.same < replayed.agreement.checks.total:
        raise typer.Exit(HarnessExit.BELOW)


if __name__ == "__main__":
    main()
