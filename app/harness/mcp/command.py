"""`ot-bench run` between its command line and the running: files in, files out."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from app.core.console.output_files import require_file
from app.core.console.terminal import WrongUsage, escape_line, print_status
from app.harness.budget import Budget, BudgetLimits
from app.harness.frame import Interrupted
from app.harness.mcp.lint import lint
from app.harness.mcp.loader import McpFile, inspect_file, require_usable
from app.harness.mcp.places import claim
from app.harness.mcp.plan import Plan, PlannedTask
from app.harness.mcp.planning import Keys, Overrides, Selection, plan_tasks, require_keys, unpriced
from app.harness.mcp.recordings import Journal, journal_of, read_report, result_of, write_report
from app.harness.mcp.reports.figures import name_of, reason, result_word, seconds
from app.harness.mcp.secrets import find_secrets, secrets_places
from app.harness.mcp.types import (
    AttemptEnded,
    Event,
    McpReport,
    ServerSeen,
    TaskResult,
    Traced,
)
from app.harness.results import AttemptOutcome
from app.llm.prices import NoPrice, Price, read_price

TRACED_CHARS: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class McpRunOptions:
    """All that a run is told; `pages` and the sheet of `csv` are what others write of its result.

    Without an `output` it is `tmp/result-TIME.yaml`.
    """

    files: Sequence[Path]
    selection: Selection = field(default_factory=Selection)
    overrides: Overrides = field(default_factory=Overrides)
    trials: int = 1
    concurrency: int = 4
    budget_limits: BudgetLimits = field(default_factory=BudgetLimits)
    secrets: Path | None = None
    prices: Path | None = None
    output: Path | None = None
    pages: Sequence[Path] = ()
    csv: bool = False
    resume: Path | None = None
    trace: bool = False
    quiet: bool = False

    def places(self) -> list[Path]:
        """Those that were named to write to."""
        return [*([self.output] if self.output is not None else ()), *self.pages]


def usable_files(
    paths: Sequence[Path], secrets: Path | None, environment: Mapping[str, str]
) -> list[McpFile]:
    """Files without errors, their variables filled in. Raises: UnreadableInput, InvalidMcpFile, BadSecrets."""
    found = find_secrets(secrets)
    files = [lint(inspect_file(path, found, environment)) for path in paths]
    require_usable(files)
    return files


def make_plan(options: McpRunOptions, *, environment: Mapping[str, str], now: datetime) -> Plan:
    """What the options come to. Nothing is started or asked yet.

    Raises: UnreadableInput, InvalidMcpFile, BadSecrets, NothingSelected, NoPrice, BadResult, WrongUsage.
    """
    files = usable_files(options.files, options.secrets, environment)
    keys = Keys(secrets=find_secrets(options.secrets), environment=environment)
    tasks = plan_tasks(files, options.selection, options.overrides, keys)
    plan = Plan(
        tasks=tasks,
        trials=options.trials,
        concurrency=options.concurrency,
        prices=_prices(options, tasks),
        timestamp=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        settings=_settings(options),
        hidden=frozenset(keys.secrets.values.values()),
        trace=options.trace,
    )
    if options.resume is None:
        return plan
    earlier = read_report(options.resume)
    if options.output == options.resume:
        _require_the_same(plan, earlier, options.resume)
    return replace(plan, done=_done(plan, earlier), servers=earlier.servers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A run of which nothing can be wrong any more; `sheet` is where its CSV goes."""

    plan: Plan
    options: McpRunOptions
    output: Path
    sheet: Path | None


def prepare(options: McpRunOptions, *, environment: Mapping[str, str], now: datetime) -> Ready:
    """The run of the options, with places that are its own. Nothing is started or asked yet.

    Raises: as `make_plan`, MissingKey, UnwritableOutput.
    """
    plan = make_plan(options, environment=environment, now=now)
    keys = Keys(secrets=find_secrets(options.secrets), environment=environment)
    require_keys(plan.tasks, keys)
    _require_places_of_their_own(options)
    for place in options.places():
        require_file(place)
    output, sheet = options.output, None
    if output is None or options.csv:
        free = claim(now)
        output = output or free
        if options.csv:
            sheet = free.with_suffix(".csv")
            sheet.touch()
        if output is not free:
            journal_of(free).unlink()
    return Ready(plan=plan, options=options, output=output, sheet=sheet)


def run_files(ready: Ready) -> McpReport:
    """Run the chosen tasks and write the result, each attempt kept the moment it is done.

    Raises: Interrupted on Ctrl-C.
    """
    from app.harness.mcp.run import run_plan

    with closing(_Recorder(ready)) as recorder:
        try:
            budget = Budget(limits=ready.options.budget_limits)
            report = asyncio.run(run_plan(ready.plan, recorder.hear, budget=budget))
        except KeyboardInterrupt:
            raise Interrupted(recorder.finish(recorder.so_far())) from None
        return recorder.finish(report)


class _Recorder:
    """Keeps what is told in a journal, shows it, and writes the whole file in the end."""

    def __init__(self, ready: Ready) -> None:
        plan = ready.plan
        self._plan = plan
        self._output = ready.output
        self._quiet = ready.options.quiet
        self._results: list[TaskResult] = list(plan.done)
        self._servers = {(each.file, each.name): each for each in plan.servers}
        self._planned = sum(1 for _ in plan.attempts())
        self._journal = Journal(ready.output, self.so_far())

    def hear(self, event: Event) -> None:
        if isinstance(event, AttemptEnded):
            self._results.append(event.result)
            self._journal.add(event.result)
            self._show(event.result)
        elif isinstance(event, ServerSeen):
            self._servers[event.facts.file, event.facts.name] = event.facts
            self._journal.meet(event.facts)
            if event.changed:
                print_status(f"warning: {event.facts.name} lists other tools than before")
        elif isinstance(event, Traced):
            print_status(f"{event.key.task}: {escape_line(event.line)[:TRACED_CHARS]}")

    def so_far(self) -> McpReport:
        return McpReport(
            timestamp=self._plan.timestamp,
            planned=self._planned,
            results=tuple(self._results),
            servers=tuple(self._servers.values()),
            settings=self._plan.settings,
            interrupted=True,
        )

    def finish(self, report: McpReport) -> McpReport:
        write_report(report, self._output)
        self._journal.discard()
        print_status(f"the result is in {self._output}")
        return report

    def close(self) -> None:
        """Without a whole file the journal stays as it is: `--resume` goes on with it."""
        if self._journal.close():
            print_status(f"the run broke off; go on with --resume {self._output}")

    def _show(self, result: TaskResult) -> None:
        if self._quiet:
            return
        why = f": {escape_line(reason(result))[:300]}" if reason(result) else ""
        print_status(
            f"[{len(self._results)}/{self._planned}] {result_word(result)}"
            f" {escape_line(result.scenario)} / {escape_line(name_of(result))}"
            f" {seconds(result.duration_ms)}{why}"
        )


def _require_places_of_their_own(options: McpRunOptions) -> None:
    """Refuse to write over what is read, or two results into one file."""
    read = [*options.files, options.prices, options.secrets]
    if options.secrets is None:
        read += secrets_places()
    if options.resume != options.output:
        read.append(options.resume)
    taken = {path.resolve() for path in read if path is not None}
    for place in options.places():
        if result_of(place) != place:
            raise WrongUsage(
                f"{place} is named as what is kept of a run while it goes on",
                hint=f"name {result_of(place)}",
            )
        if place.resolve() in taken:
            raise WrongUsage(
                f"{place} is read or written for something else already",
                hint="name another place with --output, --junit or --html",
            )
        taken.add(place.resolve())


def _require_the_same(plan: Plan, earlier: McpReport, path: Path) -> None:
    """Refuse to write over attempts that this run would not have in its result."""
    planned = {attempt.key for attempt in plan.attempts()}
    lost = [each.key for each in earlier.results if each.key not in planned]
    if lost:
        key = lost[0]
        raise WrongUsage(
            f"{path} holds {len(lost)} attempts that are not chosen now, as {key.scenario} /"
            f" {key.task} of {key.file}; they would be lost",
            hint="choose the same tasks, models and trials, or name another file with --output",
        )


def _done(plan: Plan, earlier: McpReport) -> tuple[TaskResult, ...]:
    """The attempts that are not made again: judged, asked the same as now, and nothing else needs
    what they left with a server.
    """
    hashes = {attempt.key: attempt.task.content_hash() for attempt in plan.attempts()}
    judged = tuple(
        each
        for each in earlier.results
        if each.outcome is AttemptOutcome.SCORED and hashes.get(each.key) == each.content_hash
    )
    again = {attempt.key for attempt in replace(plan, done=judged).missing()}
    return tuple(each for each in judged if each.key not in again)


def _prices(options: McpRunOptions, tasks: Sequence[PlannedTask]) -> dict[str, Price]:
    """What the models cost, as far as that is known. Raises: UnreadableInput, InvalidInput, NoPrice."""
    path = options.prices
    names = {name for task in tasks for name in task.models()}
    priced = {name: read_price(path, name) for name in names} if path is not None else {}
    prices = {name: price for name, price in priced.items() if price is not None}
    if missing := unpriced(tasks, prices, options.budget_limits):
        raise NoPrice(missing[0])
    return prices


def _settings(options: McpRunOptions) -> dict[str, Any]:
    """The circumstances of a run, so that another can be made under the same."""
    return {
        "files": [str(path) for path in options.files],
        "trials": options.trials,
        "concurrency": options.concurrency,
        "scenarios": list(options.selection.scenarios),
        "tasks": list(options.selection.tasks),
        "tags": list(options.selection.tags),
        "models": list(options.overrides.models),
        "timeout_s": options.overrides.timeout_s,
        "budget_limits": asdict(options.budget_limits),
    }
