"""`ot-bench run` without its command line: options to a plan, a plan to result files."""

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from mosaico.core.console.files import require_file
from mosaico.core.console.terminal import WrongUsage, escape_line, print_status, print_warning
from mosaico.core.text import count_noun
from mosaico.harness.budget import Budget
from mosaico.harness.commands.progress import show_progress
from mosaico.harness.commands.run_command import RunInterrupted, announce_api, run_interruptible
from mosaico.harness.limits import BudgetLimits
from mosaico.harness.lint import LintSeverity
from mosaico.harness.mcp.cli.file_picker import resolve_files
from mosaico.harness.mcp.cli.server_check import add_server_findings
from mosaico.harness.mcp.config import TaskType
from mosaico.harness.mcp.lint import lint
from mosaico.harness.mcp.loader import (
    LoadedFile,
    host_values,
    load_file,
    require_valid,
    secret_values,
)
from mosaico.harness.mcp.plan import McpRunPlan, PlannedTask
from mosaico.harness.mcp.plan_builder import (
    ModelKeys,
    PlanOverrides,
    TaskSelection,
    models_without_price,
    plan_tasks,
    require_keys,
    require_options,
)
from mosaico.harness.mcp.report_view import attempt_view
from mosaico.harness.mcp.result_file import add_result, add_server, read_report, write_report
from mosaico.harness.mcp.secrets import default_secrets_paths, find_secrets
from mosaico.harness.mcp.servers.server import ServerEnvironment
from mosaico.harness.mcp.types import (
    AttemptEnded,
    Event,
    McpReport,
    ServerSeen,
    TaskResult,
    Traced,
)
from mosaico.harness.result_file import RunJournal, claim_result_file, journal_of, result_of
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.folder_cache import TurnCache
from mosaico.llm.prices import NoPrice, Price, read_price

TRACED_CHARS: Final = 2000
DEFAULT_FOLDER: Final = Path("tmp")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpRunOptions:
    """The options of a run.

    Without an `output` the result is `tmp/result-TIME.yaml`. `reports` are the report files that
    the command line writes from the result, `csv` adds CSV files next to the default output.
    """

    files: Sequence[Path]
    selection: TaskSelection = field(default_factory=TaskSelection)
    overrides: PlanOverrides = field(default_factory=PlanOverrides)
    trials: int = 1
    concurrency: int = 4
    run_budget: BudgetLimits = field(default_factory=BudgetLimits)
    secrets: Path | None = None
    prices: Path | None = None
    cache: TurnCache | None = None
    output: Path | None = None
    reports: Sequence[Path] = ()
    csv: bool = False
    resume: Path | None = None
    trace: bool = False
    quiet: bool = False
    no_color: bool = False
    strict: bool = False

    def output_paths(self) -> list[Path]:
        """The output files that the user named."""
        return [*([self.output] if self.output is not None else ()), *self.reports]


def inspect_files(
    names: Sequence[str], secrets_file: Path | None, environment: Mapping[str, str]
) -> list[LoadedFile]:
    """The files with their findings; a variable without a value is a warning."""
    secrets = find_secrets(secrets_file)
    return [
        lint(load_file(path, secrets, environment, undefined=LintSeverity.WARNING))
        for path in resolve_files(names)
    ]


def check_servers(
    files: Sequence[LoadedFile], secrets_file: Path | None, environment: Mapping[str, str]
) -> list[LoadedFile]:
    """The files with findings about their servers, which are started for it."""
    masked_values = secret_values(files, find_secrets(secrets_file)) | host_values(files)
    path = environment.get("PATH", os.defpath)
    return asyncio.run(
        add_server_findings(files, ServerEnvironment(path=path, secret_values=masked_values))
    )


def usable_files(options: McpRunOptions, environment: Mapping[str, str]) -> list[LoadedFile]:
    """The benchmark files with their variables expanded.

    Raises: UnreadableInput, InvalidBenchmarkFile when a file has errors, UnusableInput.
    """
    secrets = find_secrets(options.secrets)
    files = [lint(load_file(path, secrets, environment)) for path in options.files]
    require_valid(files, strict=options.strict)
    return files


def make_plan(
    options: McpRunOptions, *, environment: Mapping[str, str], now: datetime
) -> McpRunPlan:
    """The attempts that the options ask for. Starts no server and sends no request.

    Raises: UnreadableInput, InvalidBenchmarkFile, UnusableInput, BadUsage, UnsupportedSetting, NoPrice,
    InvalidResultFile, WrongUsage.
    """
    files = usable_files(options, environment)
    keys = ModelKeys(secrets=find_secrets(options.secrets), environment=environment)
    tasks = plan_tasks(files, options.selection, options.overrides, keys)
    require_options(tasks)
    plan = McpRunPlan(
        tasks=tasks,
        trials=options.trials,
        concurrency=options.concurrency,
        prices=_prices(options, tasks),
        timestamp=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        settings=_settings(options, tasks),
        secret_values=secret_values(files, keys.secrets),
        host_values=host_values(files),
        trace=options.trace,
    )
    if options.resume is None:
        return plan
    earlier = read_report(options.resume)
    if options.output == options.resume:
        _require_no_lost_attempts(plan, earlier, options.resume)
    return replace(
        plan, completed_results=_reusable_results(plan, earlier), known_servers=earlier.servers
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A plan whose keys and output files are checked; `csv_file` is set when CSV was asked for."""

    plan: McpRunPlan
    options: McpRunOptions
    output: Path
    csv_file: Path | None


def prepare(
    options: McpRunOptions, *, environment: Mapping[str, str], now: datetime
) -> PreparedRun:
    """The plan with output files that no other run uses. Starts no server and sends no request.

    Raises: as `make_plan`, MissingKey, UnwritableOutput.
    """
    plan = make_plan(options, environment=environment, now=now)
    keys = ModelKeys(secrets=find_secrets(options.secrets), environment=environment)
    require_keys(plan.tasks, keys)
    _require_distinct_files(options)
    for path in options.output_paths():
        require_file(path)
    output, csv_file = options.output, None
    if output is None or options.csv:
        stem = f"result-{now.strftime('%Y%m%d-%H%M')}"
        claimed = claim_result_file(DEFAULT_FOLDER, stem, ".yaml", siblings=(".csv",))
        output = output or claimed
        if options.csv:
            csv_file = claimed.with_suffix(".csv")
            csv_file.touch()
        if output is not claimed:
            # The empty CSV file reserves the name from here on; a journal would look like a run.
            journal_of(claimed).unlink()
    return PreparedRun(plan=plan, options=options, output=output, csv_file=csv_file)


def run_files(prepared: PreparedRun) -> McpReport:
    """Run the planned attempts and write the result file; each result is journaled at once.

    Raises: RunInterrupted on Ctrl-C.
    """
    # The MCP SDK takes seconds to import; checking and listing files do without.
    from mosaico.harness.mcp.agent_loop.run import run_plan

    tasks = [task for task in prepared.plan.tasks if task.type is TaskType.HARNESS]
    models = {(task.endpoint.provider, task.model, task.turn_settings) for task in tasks}
    for provider, model, settings in sorted(models, key=str):
        announce_api(provider, model, settings)
    with closing(McpRecorder(prepared)) as recorder:
        try:
            budget = Budget(limits=prepared.options.run_budget)
            run = run_plan(
                prepared.plan, recorder.on_event, budget=budget, cache=prepared.options.cache
            )
            report = run_interruptible(run)
        except KeyboardInterrupt:
            report = recorder.finish(recorder.partial_report())
            raise RunInterrupted(report, prepared.output) from None
        return recorder.finish(report)


class McpRecorder:
    """Listens to a run: journals its results, shows them, and writes the result file."""

    def __init__(self, prepared: PreparedRun) -> None:
        plan = prepared.plan
        self._plan = plan
        self._output = prepared.output
        self._results: list[TaskResult] = list(plan.completed_results)
        self._servers = {(server.file, server.name): server for server in plan.known_servers}
        self._planned = sum(1 for _ in plan.attempts())
        self._journal = RunJournal(prepared.output, self.partial_report())
        self._display = ExitStack()
        self._show = None
        if not prepared.options.quiet:
            progress = show_progress(
                self._planned,
                done=len(plan.completed_results),
                no_color=prepared.options.no_color,
            )
            self._show = self._display.enter_context(progress)

    def on_event(self, event: Event) -> None:
        """Handle one event of the run."""
        if isinstance(event, AttemptEnded):
            self._results.append(event.result)
            add_result(self._journal, event.result)
            if self._show is not None:
                self._show(attempt_view(event.result))
        elif isinstance(event, ServerSeen):
            self._servers[event.facts.file, event.facts.name] = event.facts
            add_server(self._journal, event.facts)
            if event.changed:
                print_warning(f"the tools of {event.facts.name} have changed since its first start")
            for remark in event.facts.remarks:
                print_warning(f"server {event.facts.name!r}: {remark}")
        elif isinstance(event, Traced):
            print_status(f"{event.key.task}: {escape_line(event.line)[:TRACED_CHARS]}")

    def partial_report(self) -> McpReport:
        """The results so far, marked as interrupted."""
        return McpReport(
            timestamp=self._plan.timestamp,
            planned=self._planned,
            results=tuple(self._results),
            servers=tuple(self._servers.values()),
            settings=self._plan.settings,
            interrupted=True,
        )

    def finish(self, report: McpReport) -> McpReport:
        """Write the result file and delete the journal."""
        self._display.close()
        write_report(report, self._output)
        self._journal.discard()
        return report

    def close(self) -> None:
        """Keep the journal of a run that failed, so that it can be resumed."""
        self._display.close()
        self._journal.close()


def _require_distinct_files(options: McpRunOptions) -> None:
    """Refuse an output file that is also an input file or another output file."""
    inputs = [*options.files, options.prices, options.secrets]
    if options.secrets is None:
        inputs += default_secrets_paths()
    if options.resume != options.output:
        inputs.append(options.resume)
    used_paths = {path.resolve() for path in inputs if path is not None}
    for path in options.output_paths():
        if result_of(path) != path:
            raise WrongUsage(
                f"{path} has the name of a journal, which the run deletes at its end",
                hint=f"name {result_of(path)}",
            )
        if path.resolve() in used_paths:
            raise WrongUsage(
                f"{path} is already used as an input or output file",
                hint="name another file with --output, --junit, --html, --inspect or --markdown",
            )
        used_paths.add(path.resolve())


def _require_no_lost_attempts(plan: McpRunPlan, earlier: McpReport, path: Path) -> None:
    """Refuse to overwrite a result file whose attempts are not all part of this run."""
    planned = {attempt.key for attempt in plan.attempts()}
    lost_keys = [result.key for result in earlier.results if result.key not in planned]
    if lost_keys:
        key = lost_keys[0]
        attempts = count_noun(len(lost_keys), "attempt that is", "attempts that are")
        raise WrongUsage(
            f"{path} has {attempts} not selected now, such as {key.scenario} /"
            f" {key.task} of {key.file}; these would be lost",
            hint="select the same tasks, models and trials, or name another file with --output",
        )


def _reusable_results(plan: McpRunPlan, earlier: McpReport) -> tuple[TaskResult, ...]:
    """The earlier results that need no new attempt: scored, with unchanged content.

    A result is not reused when a missing attempt of its scenario needs the state that it leaves
    behind in a server.
    """
    hashes = {attempt.key: attempt.task.content_hash() for attempt in plan.attempts()}
    scored = tuple(
        result
        for result in earlier.results
        if result.outcome is AttemptOutcome.SCORED and hashes.get(result.key) == result.content_hash
    )
    repeated = {
        attempt.key for attempt in replace(plan, completed_results=scored).missing_attempts()
    }
    return tuple(result for result in scored if result.key not in repeated)


def _prices(options: McpRunOptions, tasks: Sequence[PlannedTask]) -> dict[str, Price]:
    """The known prices of the models. Raises: UnreadableInput, InvalidInput, NoPrice."""
    path = options.prices
    names = {name for task in tasks for name in task.models()}
    listed = {name: read_price(path, name) for name in names} if path is not None else {}
    prices = {name: price for name, price in listed.items() if price is not None}
    if missing := models_without_price(tasks, prices, options.run_budget):
        raise NoPrice(missing[0])
    return prices


def _settings(options: McpRunOptions, tasks: Iterable[PlannedTask]) -> dict[str, Any]:
    """The settings of a run, recorded so that it can be repeated; those of the model by file."""
    return {
        "files": [str(path) for path in options.files],
        "trials": options.trials,
        "concurrency": options.concurrency,
        "scenarios": list(options.selection.scenarios),
        "tasks": list(options.selection.tasks),
        "tags": list(options.selection.tags),
        "models": list(options.overrides.models),
        "timeout_s": options.overrides.timeout_s,
        "turn_settings": {task.file: asdict(task.turn_settings) for task in tasks},
        "tool_chars": {
            f"{task.file}/{task.scenario}/{task.name}": task.tool_chars for task in tasks
        },
        "run_budget": asdict(options.run_budget),
    }
