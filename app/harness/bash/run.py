"""`bashkit-eval run` without its command line: from a dataset to a report."""

import asyncio
import signal
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.core.console.output_files import require_folder
from app.core.errors import AppError, ErrorItem
from app.core.registry import suggest_names
from app.harness.bash.dataset import SHOWN, BadDataset, Dataset, Severity, inspect_dataset
from app.harness.bash.judge import Judge
from app.harness.bash.lint import lint
from app.harness.bash.progress import followed
from app.harness.bash.recorder import Recorder, resumed
from app.harness.bash.recordings import file_stem, read_report
from app.harness.bash.runner import RunLimits, Runner, plan_trials
from app.harness.bash.sandbox import BASHKIT_VERSION, sandbox_prompt
from app.harness.bash.scripts import open_script
from app.harness.bash.types import EvalReport, EvalResult, EvalTask
from app.harness.budget import Budget, BudgetLimits
from app.harness.frame import Interrupted
from app.llm.conversation import Llm, Provider, TurnSettings
from app.llm.prices import NoPrice, Price, read_price
from app.llm.providers import open_llm
from app.llm.turn_cache import CachedLlm


class NoTask(AppError):
    """A dataset has no such task or category; name those that it has."""

    code = "no-task"
    status = 400
    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model and how it is asked."""

    provider: Provider
    model: str
    base_url: str | None = None
    settings: TurnSettings = field(default_factory=TurnSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class BashRunOptions:
    """All that a run is told."""

    dataset: Path
    model: ModelChoice
    judge: ModelChoice | None = None
    categories: Sequence[str] = ()
    task_ids: Sequence[str] = ()
    trials: int = 1
    limits: RunLimits = field(default_factory=RunLimits)
    budget_limits: BudgetLimits = field(default_factory=BudgetLimits)
    prices: Path | None = None
    cache: Path | None = None
    only_cached: bool = False
    save: Path | None = None
    resume: Path | None = None


def run_dataset(
    options: BashRunOptions, *, environment: Mapping[str, str], now: datetime
) -> EvalReport:
    """Run the tasks of a dataset and return the whole report, written where that was asked for.

    Raises: UnreadableInput, BadDataset, NoTask, NoPrice, UnwritableOutput, MissingKey, BadBaseUrl, OtherRun, all of
            them before anything is asked; and Interrupted on Ctrl-C.
    """
    tasks = chosen_tasks(usable_dataset(options.dataset), options.categories, options.task_ids)
    trials = plan_trials(tasks, options.trials)
    price = _price(options, options.model)
    llm = _open(options.model, tasks, environment)
    judge = _judge(options, tasks, environment)
    report = _empty_report(options, llm, now)
    if options.resume is not None:
        report = resumed(report, read_report(options.resume), trials)
    path = _path(options, report)
    if path is not None:
        require_folder(path.parent)
        path = path if options.resume is not None else _unshared(path)
    recorder = Recorder(report, trials, path)
    recorder.write()
    budget = Budget(limits=options.budget_limits, price=price)
    try:
        try:
            asyncio.run(_run(options, llm, judge, recorder, budget))
        finally:
            recorder.write("the run broke off")
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise Interrupted(recorder.close("interrupted")) from None
    return recorder.close("the run's time limit is reached")


def usable_dataset(path: Path) -> Dataset:
    """A dataset without errors, checks included. Raises: UnreadableInput, BadDataset."""
    return require_usable(inspect_dataset(path), str(path))


def require_usable(dataset: Dataset, name: str) -> Dataset:
    """The dataset itself; raises BadDataset with the lines of it that are to be mended."""
    errors = [each for each in lint(dataset) if each.severity is Severity.ERROR]
    if errors:
        raise BadDataset(
            f"{name} cannot be used",
            errors=[
                ErrorItem(pointer=f"line {each.line}" if each.line else "file", detail=each.text)
                for each in errors[:SHOWN]
            ],
            hint=f"`bashkit-eval lint {name}` shows everything that is to be mended",
        )
    return dataset


def chosen_tasks(
    dataset: Dataset, categories: Sequence[str], task_ids: Sequence[str]
) -> list[EvalTask]:
    """The tasks that were asked for; all of them when nothing was. Raises NoTask."""
    _require_known("category", categories, {task.category for task in dataset.tasks})
    _require_known("task", task_ids, {task.id for task in dataset.tasks})
    tasks = [
        task
        for task in dataset.tasks
        if (not categories or task.category in categories) and (not task_ids or task.id in task_ids)
    ]
    if not tasks:
        raise NoTask("none of these tasks is of these categories", hint="name one or the other")
    return tasks


def _require_known(what: str, asked: Iterable[str], known: Collection[str]) -> None:
    for name in asked:
        if name not in known:
            near = suggest_names(name, sorted(known))
            listed = ", ".join(sorted(known)[:SHOWN])
            raise NoTask(
                f"the dataset has no {what} {name!r}.{near}", hint=f"it has, among others: {listed}"
            )


async def _run(
    options: BashRunOptions,
    llm: Llm,
    judge: Judge | None,
    recorder: Recorder,
    budget: Budget,
) -> None:
    _end_on_sigterm()
    missing = recorder.missing()
    with followed(len(missing)) as show:

        def tell(result: EvalResult) -> None:
            recorder.add(result)
            show(result)

        runner = Runner(
            _for_trials(options, llm),
            options.limits,
            budget,
            tell=tell,
            judge=judge,
        )
        try:
            await runner.run(missing)
        finally:
            await llm.close()
            if judge is not None:
                await judge.close()


def _end_on_sigterm() -> None:
    """Whoever runs this for somebody else, such as a CI server, ends it so."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _for_trials(options: BashRunOptions, llm: Llm) -> Callable[[int], Llm]:
    folder = options.cache
    if folder is None:
        return lambda _: llm
    return lambda trial: CachedLlm(
        llm,
        folder,
        options.model.settings,
        server=_host(options.model.base_url),
        trial=trial,
        only_cached=options.only_cached,
    )


def _open(choice: ModelChoice, tasks: Sequence[EvalTask], environment: Mapping[str, str]) -> Llm:
    if choice.provider is Provider.SCRIPTED:
        return open_script(Path(choice.model), tasks)
    return open_llm(
        choice.provider,
        choice.model,
        base_url=choice.base_url,
        settings=choice.settings,
        environment=environment,
    )


def _judge(
    options: BashRunOptions, tasks: Sequence[EvalTask], environment: Mapping[str, str]
) -> Judge | None:
    if options.judge is None:
        return None
    price = _price(options, options.judge)
    return Judge(_open(options.judge, tasks, environment), price)


def _price(options: BashRunOptions, choice: ModelChoice) -> Price | None:
    """What a model costs; raises NoPrice where a limit in dollars would bound nothing."""
    price = read_price(options.prices, choice.model) if options.prices is not None else None
    limits = (options.budget_limits.cost_usd, options.limits.task_limits.cost_usd)
    if price is None and limits != (None, None):
        raise NoPrice(choice.model)
    return price


def _path(options: BashRunOptions, report: EvalReport) -> Path | None:
    """Where the run is written: a resumed one to its own file, or under its name to --save."""
    name = options.resume.name if options.resume is not None else f"{file_stem(report)}.json"
    return options.save / name if options.save is not None else options.resume


def _unshared(path: Path) -> Path:
    """The file, made now, or one beside it: another run may have begun in the same second."""
    for name in chain((path.name,), (f"{path.stem}-{number}.json" for number in count(2))):
        with suppress(FileExistsError):
            own = path.with_name(name)
            own.touch(exist_ok=False)
            return own
    raise AssertionError("numbers do not end")


def _empty_report(options: BashRunOptions, llm: Llm, now: datetime) -> EvalReport:
    return EvalReport(
        provider=llm.provider,
        model=llm.model,
        timestamp=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        max_turns=options.limits.task.max_turns,
        results=(),
        settings=_settings(options),
    )


def _settings(options: BashRunOptions) -> dict[str, Any]:
    """The circumstances of a run, so that another can be made under the same."""
    return {
        "dataset": options.dataset.name,
        "server": _host(options.model.base_url),
        "bashkit": BASHKIT_VERSION,
        "system_prompt": sandbox_prompt(),
        "trials": options.trials,
        "limits": asdict(options.limits),
        "budget_limits": asdict(options.budget_limits),
        "turn_settings": asdict(options.model.settings),
        "judge_model": options.judge.model if options.judge else None,
    }


def _host(base_url: str | None) -> str | None:
    """Host and port, without what is no one else's business; None is the provider's own server."""
    return None if base_url is None else urlsplit(base_url).netloc.rpartition("@")[2]
