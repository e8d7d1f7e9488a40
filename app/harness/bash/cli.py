"""`bashkit-eval`, and the same as `mosaico bash-eval`: how well a model works in a bash."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.core import terminal
from app.core.terminal import CommandGroup, Format, OutputFormat, answer, answer_json, tell, warn

if TYPE_CHECKING:
    from app.harness.bash.dataset import Finding
    from app.harness.bash.replay import Replayed
    from app.harness.bash.types import EvalReport

WARNINGS = 1
MISTAKES = 2

cli = CommandGroup(
    "bash-eval",
    help="How well a model works in a sandboxed bash.",
    context_settings={"auto_envvar_prefix": "BASHKIT_EVAL"},
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
    from app.harness.bash.recordings import read_report
    from app.harness.bash.reports import render

    text = render(read_report(result), form)
    if file is None:
        answer(text.removesuffix("\n"))
        return
    file.write_text(text, encoding="utf-8", errors="replace")
    tell(f"written to {file}")


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
        answer_json(asdict(found))
    else:
        answer(comparison_report(found).removesuffix("\n"))


@cli.command("lint")
def lint_command(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET.jsonl", help="Tasks, one a line.")],
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail, too.")] = False,  # noqa: FBT002
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
        answer_json({"items": [asdict(finding) for finding in findings], "nextCursor": None})
    else:
        _print_findings(dataset, findings)
    worst = {finding.severity for finding in findings}
    tell(f"{len(found.tasks)} tasks, {len(findings)} findings")
    if Severity.ERROR in worst:
        raise typer.Exit(MISTAKES)
    if strict and findings:
        raise typer.Exit(WARNINGS)


def main() -> None:
    """Run a command of the arguments of this process."""
    sys.excepthook = terminal.tell_unforeseen
    terminal.survive_any_text((sys.stdout, sys.stderr))
    typer.main.get_command(cli)()


def _load_checks() -> None:
    from app.harness.bash.checking import load_checks

    load_checks(lambda plugin: warn(f"the plugin {plugin.name} was not loaded: {plugin.error}"))


def _finish(found: "Replayed", save: Path | None, output: OutputFormat) -> None:
    """Print how far two runs agree and what changed; keep the new one when asked."""
    from dataclasses import asdict

    from app.harness.bash.reports.agreement import agreement_report

    if output is OutputFormat.JSON:
        answer_json(asdict(found.agreement))
    else:
        answer(agreement_report(found).removesuffix("\n"))
    if save is not None:
        _save(found.report, save)
    if found.agreement.checks.same < found.agreement.checks.all:
        raise typer.Exit(1)


def _save(report: "EvalReport", folder: Path) -> None:
    from app.harness.bash.recordings import file_stem, write_report

    path = folder / f"{file_stem(report)}-{report.settings['made_by']}.json"
    write_report(report, path)
    tell(f"written to {path}")


def _print_findings(dataset: Path, findings: "list[Finding]") -> None:
    for finding in findings:
        place = f"{dataset}:{finding.line}" if finding.line else str(dataset)
        answer(f"{place}: {finding.severity}: {terminal.printable(finding.text)}")


if __name__ == "__main__":
    main()
