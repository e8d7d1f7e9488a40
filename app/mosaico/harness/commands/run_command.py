"""Shared code of both run commands: options, interruption, outputs, exit code."""

import asyncio
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, NamedTuple, TypeVar

import typer

from mosaico.core.console import terminal
from mosaico.core.console.terminal import CommandGroup, Format, OutputFormat, print_status
from mosaico.core.text import count_noun
from mosaico.harness.results import GateFigures, HarnessExit, decide_exit
from mosaico.llm.conversation import (
    PromptCache,
    Provider,
    ReasoningEffort,
    ThinkingMode,
    TurnSettings,
)
from mosaico.llm.model_families import api_for

if TYPE_CHECKING:
    from mosaico.harness.limits import BudgetLimits
    from mosaico.harness.reports.view import RunReportView
    from mosaico.llm.folder_cache import TurnCache

Report = TypeVar("Report")

BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url", help="Base URL of a compatible model server, for example a local one."
    ),
]
Trials = Annotated[
    int, typer.Option("--trials", min=1, max=1000, help="Number of attempts per task.")
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, max=64, help="Number of concurrent attempts.")
]
PricesFile = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        help='JSON file of dollars per million tokens: {"MODEL": {"input": 1, "output": 5}}.',
    ),
]
Resume = Annotated[
    Path | None, typer.Option("--resume", help="Result file of an unfinished run to continue.")
]
MinPassRate = Annotated[
    float,
    typer.Option(
        "--min-pass-rate",
        min=0,
        max=1,
        help="Exit with code 1 if the pass rate is below this limit.",
    ),
]
ToLangfuse = Annotated[
    bool, typer.Option("--langfuse", help="Also write the run to Langfuse as a dataset run.")
]
RecordedRun = Annotated[
    Path, typer.Argument(metavar="RESULT", help="Result file of a recorded run.")
]
TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="ID of the task; all its trials are shown.")
]
OtherResult = Annotated[
    Path | None,
    typer.Argument(metavar="OTHER", help="Second result file, to show both side by side."),
]
PageFile = Annotated[Path, typer.Option("--file", help="HTML file to write.")]
Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as failures.")]


class BudgetOptions(NamedTuple):
    """The options of the budget of a whole run."""

    run_tokens: Annotated[
        int | None, typer.Option("--run-tokens", min=1, help="Token limit of the whole run.")
    ] = None
    run_usd: Annotated[
        float | None,
        typer.Option("--run-usd", min=0, help="Cost limit of the whole run in US dollars."),
    ] = None

    def limits(self) -> "BudgetLimits":
        # As for the cache below: only a run needs it.
        from mosaico.harness.limits import BudgetLimits

        return BudgetLimits(tokens=self.run_tokens, cost_usd=self.run_usd)


class ReportFiles(NamedTuple):
    """The options of the report files of a run."""

    junit: Annotated[
        Path | None, typer.Option("--junit", help="Write the results as JUnit XML to this file.")
    ] = None
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with all transcripts to this file.")
    ] = None
    inspect: Annotated[
        Path | None,
        typer.Option("--inspect", help="Write a log for the viewer of Inspect AI: .eval or .json."),
    ] = None

    @property
    def paths(self) -> list[Path]:
        """The files to write."""
        return [path for path in self if path is not None]


class ModelOptions(NamedTuple):
    """The options of the requests to the model under test."""

    max_output_tokens: Annotated[
        int | None,
        typer.Option("--max-output-tokens", min=1, help="Maximum output tokens per response."),
    ] = None
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature",
            min=0,
            max=2,
            help="Sampling temperature (default: that of the provider).",
        ),
    ] = None
    reasoning_effort: Annotated[
        ReasoningEffort | None,
        typer.Option(
            "--reasoning-effort",
            help="How long the model may think (default: that of the provider).",
        ),
    ] = None
    thinking: Annotated[
        ThinkingMode | None,
        typer.Option("--thinking", help="Whether the model thinks, of the anthropic API only."),
    ] = None
    thinking_tokens: Annotated[
        int | None,
        typer.Option(
            "--thinking-tokens",
            min=1_024,
            max=20_000,
            help="Budget of thinking tokens per response, of Claude up to 4.6.",
        ),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed of the sampling, of the openai API only."),
    ] = None
    prompt_cache: Annotated[
        PromptCache | None,
        typer.Option(
            "--prompt-cache",
            help="How long the provider caches conversations, of the anthropic API only.",
        ),
    ] = None

    def turn_settings(self) -> TurnSettings:
        return TurnSettings(**self._asdict())


class CacheOptions(NamedTuple):
    """The options of the LLM cache."""

    cache: Annotated[
        Path | None,
        typer.Option("--cache", help="Folder of the LLM cache; each request is sent once."),
    ] = None
    only_cached: Annotated[
        bool, typer.Option("--only-cached", help="Send no request that is not in --cache.")
    ] = False

    def turn_cache(self) -> "TurnCache | None":
        """The cache. Raises: WrongUsage."""
        # It imports pydantic, which a command without a run does not need.
        from mosaico.llm.folder_cache import TurnCache

        if self.cache is not None:
            return TurnCache(folder=self.cache, only_cached=self.only_cached)
        if self.only_cached:
            raise terminal.WrongUsage("--only-cached needs a cache", hint="add --cache FOLDER")
        return None


def add_transcript_commands(
    cli: CommandGroup, load_view: Callable[[Path], "RunReportView"]
) -> None:
    """Add the commands `show` and `view`, which show what the models did in a recorded run."""

    @cli.command("show")
    def show_command(
        result: RecordedRun, task: TaskName, output: Format = OutputFormat.TABLE
    ) -> None:
        """Show what the models did in a task: messages, tool calls and their results, and the checks.

        Exit codes: 0 shown, 2 missing or invalid result file, or an unknown task.
        """
        # The reports take long to import; every other command does without.
        from mosaico.harness.commands.transcript_command import show_attempts

        show_attempts(load_view(result), task, output)

    @cli.command("view")
    def view_command(result: RecordedRun, file: PageFile, other: OtherResult = None) -> None:
        """Write an HTML page with every attempt: filters by result and group, all transcripts.

        With a second result file, the attempts at the same task are shown side by side.

        Exit codes: 0 written, 2 missing or invalid result file.
        """
        # As above.
        from mosaico.harness.commands.transcript_command import write_page

        write_page(file, *(load_view(path) for path in (result, other) if path is not None))


def announce_api(provider: Provider, model: str, settings: TurnSettings) -> None:
    """Say when another API than the named one is called."""
    api = api_for(provider, model, settings)
    if api is not provider:
        print_status(
            f"{model} takes tools with reasoning only with the API {api}, which is called; "
            f"--reasoning-effort none keeps {provider}"
        )


class RunInterrupted(Exception, Generic[Report]):
    """The run was interrupted; `report` holds the attempts that were finished.

    `result_file` can be resumed; None when nothing was saved.
    """

    def __init__(self, report: Report, result_file: Path | None) -> None:
        super().__init__("interrupted")
        self.report = report
        self.result_file = result_file


def run_interruptible(run: Coroutine[Any, Any, Report]) -> Report:
    """Run a coroutine to its end. Ctrl-C and SIGTERM cancel it and raise KeyboardInterrupt."""

    async def cancel_on_sigterm() -> Report:
        task = asyncio.current_task()
        assert task is not None
        # CI servers and process supervisors end a program with SIGTERM.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await run

    try:
        return asyncio.run(cancel_on_sigterm())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def run_to_exit(
    run: Callable[[], Report],
    *,
    show: Callable[[Report], None],
    export: Callable[[Report], None] | None,
    figures: Callable[[Report], GateFigures],
    min_pass_rate: float,
) -> None:
    """Run, show and export the report, then exit with the code of the gate.

    An interrupted run is shown but not exported.
    """
    try:
        report = run()
    except RunInterrupted as interrupted:
        show(interrupted.report)
        file = interrupted.result_file
        print_status(
            f"to continue: {resume_command(sys.argv, file, module=_started_module())}"
            if file is not None
            else "nothing was saved; with --save FOLDER the next run can be resumed"
        )
        raise typer.Exit(terminal.EXIT_INTERRUPTED) from None
    show(report)
    if export is not None:
        export(report)
    _exit_by_gate(figures(report), min_pass_rate)


def resume_command(
    arguments: Sequence[str], result_file: Path, *, module: str | None = None
) -> str:
    """A command line with `--resume`, quoted for a shell; `module` was started with `python -m`."""
    program, *options = arguments
    words_to_keep: list[str] = []
    for option in options:
        is_value = bool(words_to_keep) and words_to_keep[-1] == "--resume"
        if is_value:
            words_to_keep.pop()
        elif not option.startswith("--resume="):
            words_to_keep.append(option)
    words = [_program_word(program)] if module is None else ["python", "-m", module]
    return shlex.join([*words, *words_to_keep, "--resume", str(result_file)])


def _program_word(program: str) -> str:
    """The name of a program when a shell finds that file by it, else the path as it was typed."""
    name = Path(program).name
    program_path = shutil.which(name)
    return (
        name
        if program_path is not None and Path(program_path).resolve() == Path(program).resolve()
        else program
    )


def _started_module() -> str | None:
    """The module of `python -m MODULE`; None for a program."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return None if spec is None else str(spec.name)


def _exit_by_gate(figures: GateFigures, min_pass_rate: float) -> None:
    code = decide_exit(figures, min_pass_rate)
    if figures.errored or figures.missing:
        print_status(
            f"{count_noun(figures.errored, 'attempt errored and is', 'attempts errored and are')}"
            f" not scored, {count_noun(figures.missing, 'was', 'were')} not reached"
        )
    elif figures.pass_rate is None:
        print_status("no attempt has a verdict, so nothing is measured; add evaluate to the tasks")
    elif code is HarnessExit.BELOW:
        print_status(
            f"the pass rate {figures.pass_rate:.1%} is below the minimum {min_pass_rate:.1%}"
        )
    if code:
        raise typer.Exit(int(code))
