"""`ot-bench run` between its command line and the running: files in, files out."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from app.core.output_files import require_file
from app.core.terminal import WrongUsage, printable, tell
from app.harness.frame import Interrupted
from app.harness.limits import Allowance, Spending
from app.harness.llm.prices import NoPrice, Price, read_price
from app.harness.mcp.lint import lint
from app.harness.mcp.loader import BenchFile, inspect_file, require_usable
from app.harness.mcp.plan import Plan, PlannedTask
from app.harness.mcp.planning import Keys, Overrides, Selection, plan_tasks, require_keys, unpriced
from app.harness.mcp.recordings import Journal, journal_of, read_report, write_report
from app.harness.mcp.reports.figures import name_of, reason, result_word, seconds
from app.harness.mcp.secrets import find_secrets
from app.harness.mcp.types import (
    AttemptEnded,
    BenchReport,
    Event,
    Outcome,
    ServerSeen,
    TaskResult,
    Traced,
)

FOLDER: Final = Path("tmp")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """All that a run is told; `pages` are what others will write of its result."""

    files: Sequence[Path]
    selection: Selection = field(default_factory=Selection)
    overrides: Overrides = field(default_factory=Overrides)
    trials: int = 1
    concurrency: int = 4
    allowance: Allowance = field(default_factory=Allowance)
    secrets: Path | None = None
    prices: Path | None = None
    output: Path
    pages: Sequence[Path] = ()
    resume: Path | None = None
    trace: bool = False
    quiet: bool = False


def usable_files(
    paths: Sequence[Path], secrets: Path | None, environment: Mapping[str, str]
) -> list[BenchFile]:
    """Files without errors, their variables filled in. Raises: NoInput, BadBenchmark, BadSecrets."""
    found = find_secrets(secrets)
    files = [lint(inspect_file(path, found, environment)) for path in paths]
    require_usable(files)
    return files


def make_plan(options: RunOptions, *, environment: Mapping[str, str], now: datetime) -> Plan:
    """What the options come to. Nothing is started or asked yet.

    Raises: NoInput, BadBenchmark, BadSecrets, NothingSelected, NoPrice, BadResult, WrongUsage.
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


def run_files(options: RunOptions, *, environment: Mapping[str, str], now: datetime) -> BenchReport:
    """Run the chosen tasks and write the result, each attempt kept the moment it is done.

    Raises: as `make_plan`, MissingKey, NoOutput, and Interrupted on Ctrl-C.
    """
    plan = make_plan(options, environment=environment, now=now)
    keys = Keys(secrets=find_secrets(options.secrets), environment=environment)
    require_keys(plan.tasks, keys)
    _require_places_of_their_own(options)
    for place in (options.output, *options.pages):
        require_file(place)
    from app.harness.mcp.run import run_bench

    with closing(_Recorder(plan, options)) as recorder:
        try:
            spending = Spending(allowance=options.allowance)
            report = asyncio.run(run_bench(plan, recorder.hear, spending=spending))
        except KeyboardInterrupt:
            raise Interrupted(recorder.finish(recorder.so_far())) from None
        return recorder.finish(report)


def free_path(now: datetime, suffix: str, folder: Path = FOLDER) -> Path:
    """`tmp/result-20261122-0930.csv`, numbered when there is such a file, or a run that makes it."""
    stem = f"result-{now.strftime('%Y%m%d-%H%M')}"
    path = folder / f"{stem}{suffix}"
    number = 2
    while os.path.lexists(path) or os.path.lexists(journal_of(path)):
        path = folder / f"{stem}-{number}{suffix}"
        number += 1
    return path


class _Recorder:
    """Keeps what is told in a journal, shows it, and writes the whole file in the end."""

    def __init__(self, plan: Plan, options: RunOptions) -> None:
        self._plan = plan
        self._options = options
        self._results: list[TaskResult] = list(plan.done)
        self._servers = {(each.file, each.name): each for each in plan.servers}
        self._planned = sum(1 for _ in plan.attempts())
        self._journal = Journal(options.output, self.so_far())

    def hear(self, event: Event) -> None:
        if isinstance(event, AttemptEnded):
            self._results.append(event.result)
            self._journal.add(event.result)
            self._show(event.result)
        elif isinstance(event, ServerSeen):
            self._servers[event.facts.file, event.facts.name] = event.facts
            self._journal.meet(event.facts)
            if event.changed:
                tell(f"warning: {event.facts.name} lists other tools than before")
        elif isinstance(event, Traced):
            tell(f"{event.key.task}: {printable(event.line)}")

    def so_far(self) -> BenchReport:
        return BenchReport(
            timestamp=self._plan.timestamp,
            planned=self._planned,
            results=tuple(self._results),
            servers=tuple(self._servers.values()),
            settings=self._plan.settings,
            interrupted=True,
        )

    def finish(self, report: BenchReport) -> BenchReport:
        write_report(report, self._options.output)
        self._journal.discard()
        tell(f"the result is in {self._options.output}")
        return report

    def close(self) -> None:
        """Without a whole file the journal stays as it is: `--resume` goes on with it."""
        if self._journal.close():
            tell(f"the run broke off; go on with --resume {self._options.output}")

    def _show(self, result: TaskResult) -> None:
        if self._options.quiet:
            return
        why = f": {printable(reason(result))[:300]}" if reason(result) else ""
        tell(
            f"[{len(self._results)}/{self._planned}] {result_word(result)}"
            f" {printable(result.scenario)} / {printable(name_of(result))}"
            f" {seconds(result.duration_ms)}{why}"
        )


def _require_places_of_their_own(options: RunOptions) -> None:
    """Refuse to write over what is read, or two results into one file."""
    read = [*options.files, options.secrets, options.prices]
    if options.resume != options.output:
        read.append(options.resume)
    taken = {path.resolve() for path in read if path is not None}
    for place in (options.output, *options.pages):
        if place.resolve() in taken:
            raise WrongUsage(
                f"{place} is read or written for something else already",
                hint="name another place with --output, --junit or --html",
            )
        taken.add(place.resolve())


def _require_the_same(plan: Plan, earlier: BenchReport, path: Path) -> None:
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


def _done(plan: Plan, earlier: BenchReport) -> tuple[TaskResult, ...]:
    """The attempts that are not made again: judged, asked the same as now, and nothing else needs
    what they left with a server.
    """
    hashes = {attempt.key: attempt.task.content_hash() for attempt in plan.attempts()}
    judged = tuple(
        each
        for each in earlier.results
        if each.outcome is Outcome.SCORED and hashes.get(each.key) == each.content_hash
    )
    again = {attempt.key for attempt in replace(plan, done=judged).missing()}
    return tuple(each for each in judged if each.key not in again)


def _prices(options: RunOptions, tasks: Sequence[PlannedTask]) -> dict[str, Price]:
    """What the models cost, as far as that is known. Raises: NoInput, BadInput, NoPrice."""
    path = options.prices
    names = {name for task in tasks for name in task.models()}
    priced = {name: read_price(path, name) for name in names} if path is not None else {}
    prices = {name: price for name, price in priced.items() if price is not None}
    if missing := unpriced(tasks, prices, options.allowance):
        raise NoPrice(missing[0])
    return prices


def _settings(options: RunOptions) -> dict[str, Any]:
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
        "allowance": asdict(options.allowance),
    }
