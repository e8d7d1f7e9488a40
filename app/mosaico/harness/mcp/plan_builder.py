"""Builds the planned tasks of a run from benchmark files: selection, defaults, overrides, keys."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from mosaico.core.errors import BadUsage
from mosaico.harness.limits import BudgetLimits
from mosaico.harness.mcp.config import (
    DEFAULT_MAX_TURNS,
    MAX_MODEL_CHARS,
    BenchmarkDefaults,
    DirectTask,
    EvaluatorConfig,
    HarnessTask,
    McpBenchmark,
    Scenario,
    TaskType,
    TaskTypeDefaults,
    servers_of,
    split_prompts,
)
from mosaico.harness.mcp.loader import LoadedFile, TaskIndex, require_valid
from mosaico.harness.mcp.plan import (
    LlmEndpoint,
    PlannedServer,
    PlannedTask,
    PlannedVerification,
)
from mosaico.harness.mcp.secrets import Secrets
from mosaico.llm.conversation import Provider, TurnSettings
from mosaico.llm.prices import Price
from mosaico.llm.providers import KEYS, MissingKey, require_supported

T = TypeVar("T")

OPENROUTER_URL: Final = "https://openrouter.ai/api/v1"
_OPENROUTER_KEY: Final = "OPENROUTER_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSelection:
    """Shell patterns that select tasks; one matching tag is enough. An empty list selects all."""

    scenarios: Sequence[str] = ()
    tasks: Sequence[str] = ()
    tags: Sequence[str] = ()

    def includes(self, scenario: str, task: str, tags: Sequence[str]) -> bool:
        return (
            _matches_any(self.scenarios, [scenario])
            and _matches_any(self.tasks, [task])
            and _matches_any(self.tags, tags)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOverrides:
    """Command line options that override the files; each model runs every task."""

    models: Sequence[str] = ()
    timeout_s: float | None = None
    provider: Provider | None = None
    base_url: str | None = None
    turn_settings: TurnSettings = field(default_factory=TurnSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelKeys:
    """Looks up API keys of models: in the secrets file, then in the environment."""

    secrets: Secrets = field(default_factory=Secrets)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def find(self, *names: str) -> str | None:
        values = (self.secrets.values.get(n) or self.environment.get(n) for n in names)
        return next((value for value in values if value), None)


def plan_tasks(
    files: Sequence[LoadedFile], selection: TaskSelection, overrides: PlanOverrides, keys: ModelKeys
) -> tuple[PlannedTask, ...]:
    """The selected tasks of valid files, in the order of the files.

    A task that cannot run is planned with its refusal. Raises: BadUsage, and
    InvalidBenchmarkFile when none of the selected tasks can run.
    """
    planned = [
        task
        for file in files
        if file.bench is not None
        for task in _TaskPlanner(file, file.bench, overrides, keys).tasks()
        if selection.includes(task.scenario, task.name, task.tags)
    ]
    if not planned:
        raise BadUsage(
            "no task matches the given names and tags", hint="`ot-bench list FILE…` lists all tasks"
        )
    if all(task.refusal is not None for task in planned):
        require_valid(files, strict=True)
    return tuple(planned)


def require_options(tasks: Iterable[PlannedTask]) -> None:
    """Raise UnsupportedSetting when the model of a task does not take an option."""
    for task in tasks:
        if task.type is TaskType.HARNESS:
            require_supported(task.endpoint.provider, task.model, task.turn_settings)


def require_keys(tasks: Iterable[PlannedTask], keys: ModelKeys) -> None:
    """Raise MissingKey when a task calls a model at a public provider without an API key."""
    for task in tasks:
        endpoint = task.endpoint
        if (
            task.models()
            and endpoint.api_key is None
            and endpoint.base_url in (None, OPENROUTER_URL)
        ):
            name = (
                _OPENROUTER_KEY if endpoint.base_url == OPENROUTER_URL else KEYS[endpoint.provider]
            )
            raise MissingKey(
                f"{task.name} calls {task.model or 'a judge model'}, but {name} is not set",
                hint=f"set {name} in {keys.secrets.location()} or in the environment, or name your own"
                " model server with --base-url",
            )


def models_without_price(
    tasks: Iterable[PlannedTask], prices: Mapping[str, Price], run_budget: BudgetLimits
) -> list[str]:
    """The models without a price to which a cost limit of a task or of the run applies."""
    limited_models = dict.fromkeys(
        name for task in tasks for name in _models_with_cost_limit(task, run_budget)
    )
    return [name for name in limited_models if name not in prices]


class _TaskPlanner:
    """Applies the defaults of one file and the overrides to its tasks."""

    def __init__(
        self, file: LoadedFile, bench: McpBenchmark, overrides: PlanOverrides, keys: ModelKeys
    ) -> None:
        self._name = file.name
        self._refusals = file.refusals
        self._bench = bench
        self._overrides = overrides
        self._endpoint = _endpoint(bench, overrides, keys)
        self._turn_settings = _turn_settings(bench, overrides)

    def tasks(self) -> Iterable[PlannedTask]:
        for i, scenario in enumerate(self._bench.scenarios):
            for k, task in enumerate(scenario.tasks):
                refusal = self._refusals.get(TaskIndex(i, k))
                for planned in self._planned(scenario, task):
                    yield replace(planned, refusal=refusal)

    def _planned(self, scenario: Scenario, task: HarnessTask | DirectTask) -> Iterable[PlannedTask]:
        if isinstance(task, DirectTask):
            return [self._direct(scenario, task)]
        return [self._harness(scenario, task, model) for model in self._models(task)]

    def _models(self, task: HarnessTask) -> Sequence[str]:
        defaults = self._bench.defaults
        return self._overrides.models or [task.model or defaults.harness.model or defaults.model]

    def _direct(self, scenario: Scenario, task: DirectTask) -> PlannedTask:
        type_defaults = self._bench.defaults.direct
        return PlannedTask(
            file=self._name,
            scenario=scenario.name,
            share_servers=scenario.share_servers,
            in_order=scenario.in_order,
            name=task.name,
            type=TaskType.DIRECT,
            model="",
            endpoint=self._endpoint,
            servers=self._servers(task, type_defaults),
            timeout_s=self._timeout(task.timeout, type_defaults.timeout),
            tool=task.tool or type_defaults.tool,
            arguments={**type_defaults.arguments, **task.arguments},
            tags=_merge_tags(type_defaults.tags, task.tags),
            evaluator=self._evaluator(task.evaluate),
        )

    def _harness(self, scenario: Scenario, task: HarnessTask, model: str) -> PlannedTask:
        file_defaults, type_defaults = self._bench.defaults, self._bench.defaults.harness
        limits = [task.limits, type_defaults.limits, file_defaults.limits]
        return PlannedTask(
            file=self._name,
            scenario=scenario.name,
            share_servers=scenario.share_servers,
            in_order=scenario.in_order,
            name=task.name,
            type=TaskType.HARNESS,
            model=model,
            endpoint=self._endpoint,
            servers=self._servers(task, type_defaults),
            timeout_s=self._timeout(task.timeout, type_defaults.timeout),
            prompts=split_prompts(task.prompt),
            system_prompt=_system_prompt(task, file_defaults),
            tags=_merge_tags(type_defaults.tags, task.tags),
            turn_settings=self._turn_settings,
            max_turns=_first_set([limit.turns for limit in limits]) or DEFAULT_MAX_TURNS,
            tool_chars=_first_set([limit.tool_chars for limit in limits]) or MAX_MODEL_CHARS,
            budget_limits=BudgetLimits(
                tokens=_first_set([limit.tokens for limit in limits]),
                cost_usd=_first_set([limit.cost_usd for limit in limits]),
            ),
            evaluator=self._evaluator(task.evaluate),
            verifications=tuple(
                PlannedVerification(
                    tool=check.tool,
                    server=check.server,
                    arguments=check.arguments,
                    evaluator=self._evaluator(check.evaluate),
                )
                for check in task.verify
            ),
            hidden_servers=self._planned_servers(
                check.server
                for check in task.verify
                if check.server and check.server not in servers_of(task, type_defaults)
            ),
        )

    def _servers(
        self, task: HarnessTask | DirectTask, defaults: TaskTypeDefaults
    ) -> tuple[PlannedServer, ...]:
        return self._planned_servers(servers_of(task, defaults))

    def _planned_servers(self, names: Iterable[str]) -> tuple[PlannedServer, ...]:
        """The known servers, each once: a task that names another server is refused."""
        known_servers = self._bench.servers
        return tuple(
            PlannedServer(name=name, config=known_servers[name])
            for name in dict.fromkeys(names)
            if name in known_servers
        )

    def _timeout(self, own: float | None, default: float | None) -> float:
        return self._overrides.timeout_s or own or default or self._bench.defaults.timeout

    def _evaluator(self, evaluate: str | EvaluatorConfig | None) -> EvaluatorConfig | None:
        return self._bench.evaluators.get(evaluate) if isinstance(evaluate, str) else evaluate


def _models_with_cost_limit(task: PlannedTask, run_budget: BudgetLimits) -> list[str]:
    if run_budget.cost_usd is not None:
        return task.models()
    return [task.model] if task.budget_limits.cost_usd is not None else []


def _endpoint(bench: McpBenchmark, overrides: PlanOverrides, keys: ModelKeys) -> LlmEndpoint:
    """The model server: of the command line, the file, OPENAI_BASE_URL in secrets, or OpenRouter."""
    provider = overrides.provider or Provider(bench.llm.provider)
    url = overrides.base_url or bench.llm.base_url
    if provider is Provider.ANTHROPIC:
        key = bench.llm.api_key or keys.find(KEYS[provider])
        return LlmEndpoint(provider=provider, base_url=url, api_key=key)
    url = url or keys.secrets.values.get("OPENAI_BASE_URL") or OPENROUTER_URL
    names = (_OPENROUTER_KEY, KEYS[provider]) if url == OPENROUTER_URL else (KEYS[provider],)
    return LlmEndpoint(
        provider=provider, base_url=url, api_key=bench.llm.api_key or keys.find(*names)
    )


def _turn_settings(bench: McpBenchmark, overrides: PlanOverrides) -> TurnSettings:
    """The settings of the file, each replaced by the option of the command line."""
    options = asdict(overrides.turn_settings)
    set_options = {name: option for name, option in options.items() if option is not None}
    return replace(bench.llm.turn_settings(), **set_options)


def _matches_any(patterns: Sequence[str], names: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _merge_tags(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*first, *second]))


def _first_set(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


def _system_prompt(task: HarnessTask, defaults: BenchmarkDefaults) -> str | None:
    """The system prompt of the task, its type or the file; an explicit null means no prompt."""
    if "system_prompt" in task.model_fields_set:
        return task.system_prompt
    if "system_prompt" in defaults.harness.model_fields_set:
        return defaults.harness.system_prompt
    return defaults.system_prompt
