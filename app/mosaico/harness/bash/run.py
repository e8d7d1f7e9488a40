"""`bashkit-eval run` without its command line: from a dataset to a report."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from mosaico.core.console.files import require_folder
from mosaico.harness.bash.attempt_runner import RunLimits, Runner, plan_trials, run_and_close
from mosaico.harness.bash.dataset import load_dataset, open_script, select_tasks
from mosaico.harness.bash.judge import BashJudge
from mosaico.harness.bash.report_view import attempt_view
from mosaico.harness.bash.result_file import file_stem, read_report
from mosaico.harness.bash.result_journal import Recorder, resume_report
from mosaico.harness.bash.sandbox import BASHKIT_VERSION, sandbox_prompt
from mosaico.harness.bash.types import EvalReport, EvalResult, EvalTask
from mosaico.harness.budget import Budget
from mosaico.harness.commands.progress import show_progress
from mosaico.harness.commands.run_command import RunInterrupted, announce_api, run_interruptible
from mosaico.harness.limits import BudgetLimits
from mosaico.harness.result_file import claim_result_file, result_of
from mosaico.llm.conversation import Llm, Provider, TurnSettings
from mosaico.llm.folder_cache import TurnCache, server_host
from mosaico.llm.prices import NoPrice, Price, read_price
from mosaico.llm.providers import open_llm


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model, its server, and the settings of its requests."""

    provider: Provider
    model: str
    base_url: str | None = None
    settings: TurnSettings = field(default_factory=TurnSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class BashRunOptions:
    """The options of a run."""

    dataset: Path
    model: ModelChoice
    judge: ModelChoice | None = None
    categories: Sequence[str] = ()
    task_ids: Sequence[str] = ()
    trials: int = 1
    limits: RunLimits = field(default_factory=RunLimits)
    run_budget: BudgetLimits = field(default_factory=BudgetLimits)
    prices: Path | None = None
    cache: TurnCache | None = None
    save: Path | None = None
    resume: Path | None = None


def run_dataset(
    options: BashRunOptions, *, environment: Mapping[str, str], now: datetime
) -> EvalReport:
    """Run the tasks of a dataset and return the report; it is written where the options say.

    Raises: before the first request UnreadableInput, InvalidDataset, BadUsage, NoPrice, UnwritableOutput,
    MissingKey, IncompatibleRun; RunInterrupted on Ctrl-C.
    """
    tasks = select_tasks(load_dataset(options.dataset), options.categories, options.task_ids)
    trials = plan_trials(tasks, options.trials)
    budget = Budget(
        limits=options.run_budget,
        price=_price(options, options.model),
        max_output_tokens=options.model.settings.max_output_tokens,
    )
    llm = _open(options.model, tasks, environment)
    judge = _open_judge(options, tasks, environment)
    announce_api(options.model.provider, options.model.model, options.model.settings)
    report = _empty_report(options, llm, now)
    if options.resume is not None:
        report = resume_report(report, read_report(options.resume), trials)
    with closing(Recorder(report, trials, _result_path(options, report))) as recorder:
        try:
            run_interruptible(_run(options, llm, judge, recorder, budget))
        except KeyboardInterrupt:
            raise RunInterrupted(recorder.finish("interrupted"), recorder.path) from None
        return recorder.finish("the run reached its time limit")


async def _run(
    options: BashRunOptions,
    llm: Llm,
    judge: BashJudge | None,
    recorder: Recorder,
    budget: Budget,
) -> None:
    missing = recorder.missing()
    with show_progress(recorder.planned, done=recorder.planned - len(missing)) as show:

        def keep(result: EvalResult) -> None:
            recorder.add(result)
            show(attempt_view(result))

        runner = Runner(
            _llm_for_trial(options, llm), options.limits, budget, on_result=keep, judge=judge
        )
        await run_and_close(runner, missing, llm, judge)


def _llm_for_trial(options: BashRunOptions, llm: Llm) -> Callable[[int], Llm]:
    cache, choice = options.cache, options.model
    if cache is None:
        return lambda _: llm
    return lambda trial: cache.wrap(llm, choice.settings, base_url=choice.base_url, trial=trial)


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


def _open_judge(
    options: BashRunOptions, tasks: Sequence[EvalTask], environment: Mapping[str, str]
) -> BashJudge | None:
    if options.judge is None:
        return None
    price = _price(options, options.judge)
    llm = _open(options.judge, tasks, environment)
    if options.cache is not None:
        llm = options.cache.wrap(llm, options.judge.settings, base_url=options.judge.base_url)
    return BashJudge(llm, price)


def _price(options: BashRunOptions, choice: ModelChoice) -> Price | None:
    """The price of a model. Raises NoPrice when a cost limit needs it and it is unknown."""
    price = read_price(options.prices, choice.model) if options.prices is not None else None
    limits = (options.run_budget.cost_usd, options.limits.task_budget.cost_usd)
    if price is None and limits != (None, None):
        raise NoPrice(choice.model)
    return price


def _result_path(options: BashRunOptions, report: EvalReport) -> Path | None:
    """The path of the result: a new file in --save, or the resumed file."""
    resumed = result_of(options.resume) if options.resume is not None else None
    if options.save is None:
        if resumed is not None:
            require_folder(resumed.parent)
        return resumed
    if resumed is None:
        return claim_result_file(options.save, file_stem(report), ".json", siblings=(".md",))
    require_folder(options.save)
    return options.save / resumed.name


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
    """The settings of a run, recorded so that it can be repeated."""
    return {
        "dataset": options.dataset.name,
        "server": server_host(options.model.base_url),
        "bashkit": BASHKIT_VERSION,
        "system_prompt": sandbox_prompt(),
        "tool_chars": options.limits.task.tool_chars,
        "trials": options.trials,
        "limits": asdict(options.limits),
        "run_budget": asdict(options.run_budget),
        "turn_settings": options.model.settings.conditions(),
        "prompt_cache": options.model.settings.prompt_cache,
        "judge_model": options.judge.model if options.judge else None,
    }
