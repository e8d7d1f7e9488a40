"""From benchmark files to what is run: the tasks that were chosen, every default settled."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from app.core.errors import AppError
from app.harness.budget import BudgetLimits
from app.harness.mcp.config import (
    DEFAULT_TURNS,
    Defaults,
    DirectTask,
    Evaluator,
    HarnessTask,
    McpBenchmark,
    Scenario,
    ServerNames,
    TaskType,
)
from app.harness.mcp.loader import McpFile
from app.harness.mcp.plan import LlmEndpoint, PlannedServer, PlannedTask
from app.harness.mcp.prompts import split_prompts
from app.harness.mcp.secrets import Secrets
from app.llm.conversation import Provider
from app.llm.prices import Price
from app.llm.providers import KEYS, MissingKey

T = TypeVar("T")

OPENROUTER: Final = "https://openrouter.ai/api/v1"
_ROUTER_KEY: Final = "OPENROUTER_API_KEY"


class NothingSelected(AppError):
    """No task is left to run; widen --scenario, --task or --tags."""

    code = "nothing-selected"
    status = 400
    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which tasks are run, by patterns of a shell; of tags one is enough. Empty is no choice."""

    scenarios: Sequence[str] = ()
    tasks: Sequence[str] = ()
    tags: Sequence[str] = ()

    def has(self, scenario: str, task: str, tags: Sequence[str]) -> bool:
        return (
            _any(self.scenarios, [scenario]) and _any(self.tasks, [task]) and _any(self.tags, tags)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What the command line says instead of the files; several models are run one by one."""

    models: Sequence[str] = ()
    timeout_s: float | None = None
    provider: Provider | None = None
    base_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Where the keys of models come from: the file of secrets, then the environment."""

    secrets: Secrets = field(default_factory=Secrets)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def find(self, *names: str) -> str | None:
        values = (self.secrets.values.get(n) or self.environment.get(n) for n in names)
        return next((value for value in values if value), None)


def plan_tasks(
    files: Iterable[McpFile], selection: Selection, overrides: Overrides, keys: Keys
) -> tuple[PlannedTask, ...]:
    """The tasks of usable files, in the order in which they stand there.

    Raises: NothingSelected.
    """
    planned = [
        task
        for file in files
        if file.bench is not None
        for scenario in file.bench.scenarios
        for task in _Planner(file.name, file.bench, overrides, keys).tasks(scenario)
        if selection.has(scenario.name, task.name, task.tags)
    ]
    if not planned:
        raise NothingSelected(
            "no task is of these names and tags", hint="`ot-bench list FILE…` shows all of them"
        )
    return tuple(planned)


def require_keys(tasks: Iterable[PlannedTask], keys: Keys) -> None:
    """Raise MissingKey when a model is asked at a public address without a key."""
    for task in tasks:
        end = task.endpoint
        asks = task.type is TaskType.HARNESS or (
            task.evaluator is not None and task.evaluator.model
        )
        if asks and end.api_key is None and end.base_url in (None, OPENROUTER):
            name = _ROUTER_KEY if end.base_url == OPENROUTER else KEYS[end.provider]
            raise MissingKey(
                f"{task.name} asks {task.model or 'a judge'}, and {name} is not set",
                hint=f"put {name} into {keys.secrets.where()} or the environment, or name a server"
                " of your own with --base-url",
            )


def unpriced(
    tasks: Iterable[PlannedTask], prices: Mapping[str, Price], run: BudgetLimits
) -> list[str]:
    """The models without the price that a limit in dollars needs, be it of a task or of the run."""
    bounded = dict.fromkeys(name for task in tasks for name in _bounded(task, run))
    return [name for name in bounded if name not in prices]


class _Planner:
    """Settles the defaults of one file."""

    def __init__(self, name: str, bench: McpBenchmark, overrides: Overrides, keys: Keys) -> None:
        self._name = name
        self._bench = bench
        self._overrides = overrides
        self._endpoint = _endpoint(bench, overrides, keys)

    def tasks(self, scenario: Scenario) -> Iterable[PlannedTask]:
        for task in scenario.tasks:
            if isinstance(task, DirectTask):
                yield self._direct(scenario, task)
            else:
                for model in self._models(task):
                    yield self._harness(scenario, task, model)

    def _models(self, task: HarnessTask) -> Sequence[str]:
        defaults = self._bench.defaults
        return self._overrides.models or [task.model or defaults.harness.model or defaults.model]

    def _direct(self, scenario: Scenario, task: DirectTask) -> PlannedTask:
        defaults = self._bench.defaults.direct
        return PlannedTask(
            file=self._name,
            scenario=scenario.name,
            share_servers=scenario.share_servers,
            in_order=scenario.in_order,
            name=task.name,
            type=TaskType.DIRECT,
            model="",
            endpoint=self._endpoint,
            servers=self._servers(task, defaults.server),
            timeout_s=self._timeout(task.timeout, defaults.timeout),
            tool=task.tool or defaults.tool,
            arguments={**defaults.arguments, **task.arguments},
            tags=_joined(defaults.tags, task.tags),
            evaluator=self._evaluator(task.evaluate),
        )

    def _harness(self, scenario: Scenario, task: HarnessTask, model: str) -> PlannedTask:
        whole, defaults = self._bench.defaults, self._bench.defaults.harness
        limits = [task.limits, defaults.limits, whole.limits]
        return PlannedTask(
            file=self._name,
            scenario=scenario.name,
            share_servers=scenario.share_servers,
            in_order=scenario.in_order,
            name=task.name,
            type=TaskType.HARNESS,
            model=model,
            endpoint=self._endpoint,
            servers=self._servers(task, defaults.server),
            timeout_s=self._timeout(task.timeout, defaults.timeout),
            prompts=split_prompts(task.prompt),
            system_prompt=_system_prompt(task, whole),
            tags=_joined(defaults.tags, task.tags),
            max_turns=_first([each.turns for each in limits]) or DEFAULT_TURNS,
            budget_limits=BudgetLimits(
                tokens=_first([each.tokens for each in limits]),
                cost_usd=_first([each.cost_usd for each in limits]),
            ),
            evaluator=self._evaluator(task.evaluate),
        )

    def _servers(
        self, task: HarnessTask | DirectTask, default: ServerNames
    ) -> tuple[PlannedServer, ...]:
        named = task.server if "server" in task.model_fields_set else default
        names = [named] if isinstance(named, str) else named or []
        return tuple(PlannedServer(name=name, config=self._bench.servers[name]) for name in names)

    def _timeout(self, own: float | None, default: float | None) -> float:
        return self._overrides.timeout_s or own or default or self._bench.defaults.timeout

    def _evaluator(self, evaluate: str | Evaluator | None) -> Evaluator | None:
        return self._bench.evaluators[evaluate] if isinstance(evaluate, str) else evaluate


def _bounded(task: PlannedTask, run: BudgetLimits) -> list[str]:
    if run.cost_usd is not None:
        return task.models()
    return [task.model] if task.budget_limits.cost_usd is not None else []


def _endpoint(bench: McpBenchmark, overrides: Overrides, keys: Keys) -> LlmEndpoint:
    """What the command line names, else the file, else secrets and environment, else OpenRouter."""
    provider = overrides.provider or Provider(bench.llm.provider)
    url = overrides.base_url or bench.llm.base_url
    if provider is Provider.ANTHROPIC:
        key = bench.llm.api_key or keys.find(KEYS[provider])
        return LlmEndpoint(provider=provider, base_url=url, api_key=key)
    url = url or keys.secrets.values.get("OPENAI_BASE_URL") or OPENROUTER
    names = (_ROUTER_KEY, KEYS[provider]) if url == OPENROUTER else (KEYS[provider],)
    return LlmEndpoint(
        provider=provider, base_url=url, api_key=bench.llm.api_key or keys.find(*names)
    )


def _any(patterns: Sequence[str], names: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, each) for each in patterns for name in names)


def _joined(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*first, *second]))


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


def _system_prompt(task: HarnessTask, defaults: Defaults) -> str | None:
    """That of the task, of its type, or of all; null takes away what the others would give."""
    if "system_prompt" in task.model_fields_set:
        return task.system_prompt
    if "system_prompt" in defaults.harness.model_fields_set:
        return defaults.harness.system_prompt
    return defaults.system_prompt
