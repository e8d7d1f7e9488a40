"""The plan of a run: its tasks with all defaults applied and all variables expanded.

`run.run_plan` executes a plan. It sends each result as an event and returns the report; the listener
writes files.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from mosaico.harness.limits import BudgetLimits
from mosaico.harness.mcp.config import (
    DEFAULT_MAX_TURNS,
    MAX_MODEL_CHARS,
    EvaluatorConfig,
    HttpServer,
    StdioServer,
    TaskType,
)
from mosaico.harness.mcp.types import AttemptKey, ServerFacts, TaskResult
from mosaico.harness.results import attempt_name, hash_content
from mosaico.llm.conversation import Provider, TurnSettings
from mosaico.llm.prices import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedServer:
    """A server of a task. The `env` of a stdio server is complete except for `PATH`."""

    name: str
    config: StdioServer | HttpServer


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmEndpoint:
    """The model server of a file."""

    provider: Provider
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVerification:
    """A call after the conversation; `server` is None where any server may have the tool.

    Without `evaluator` the call must succeed.
    """

    tool: str
    server: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    evaluator: EvaluatorConfig | None = None

    @property
    def label(self) -> str:
        return f"verify {self.tool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """A task for one model; `model` is empty for a direct task. The judge has no `turn_settings`.

    `prompts` are the prompts of one conversation, empty for a direct task; `tool` and `arguments`
    belong to direct tasks. `refusal` is why the task cannot run; its attempts are errors. Tasks of
    a scenario with `share_servers` use the same servers; with `in_order` each trial has its own. The
    model does not see `hidden_servers`, which only the verifications call.
    """

    file: str
    scenario: str
    name: str
    type: TaskType
    model: str
    servers: tuple[PlannedServer, ...]
    timeout_s: float
    endpoint: LlmEndpoint
    prompts: tuple[str, ...] = ()
    system_prompt: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    max_turns: int = DEFAULT_MAX_TURNS
    tool_chars: int = MAX_MODEL_CHARS
    budget_limits: BudgetLimits = field(default_factory=BudgetLimits)
    evaluator: EvaluatorConfig | None = None
    verifications: tuple[PlannedVerification, ...] = ()
    hidden_servers: tuple[PlannedServer, ...] = ()
    turn_settings: TurnSettings = field(default_factory=TurnSettings)
    share_servers: bool = False
    in_order: bool = False
    refusal: str | None = None

    def row(self) -> dict[str, object]:
        """The task as an item of a list."""
        return {
            "file": self.file,
            "scenario": self.scenario,
            "task": self.name,
            "type": self.type.value,
            "model": self.model,
            "servers": list(self.server_names()),
            "tags": list(self.tags),
        }

    def server_names(self) -> tuple[str, ...]:
        return tuple(server.name for server in self.servers)

    def all_servers(self) -> tuple[PlannedServer, ...]:
        """The servers of the model, then those that only the verifications call."""
        return self.servers + self.hidden_servers

    def models(self) -> list[str]:
        """Return the models of the task: the model under test and the judges."""
        if self.refusal is not None:
            return []
        names = [self.model] if self.type is TaskType.HARNESS else []
        evaluators = [self.evaluator, *(check.evaluator for check in self.verifications)]
        return names + [
            evaluator.model
            for evaluator in evaluators
            if evaluator is not None and evaluator.prompt and evaluator.model
        ]

    def content_hash(self) -> str:
        """A hash of everything that the model sees or that is evaluated; equal hashes are comparable.

        The environment and headers of a server are excluded: they may hold secrets that change.
        """
        content = {
            "type": self.type,
            "prompts": self.prompts,
            "system_prompt": self.system_prompt,
            "tool": self.tool,
            "arguments": self.arguments,
            "max_turns": self.max_turns,
            "budget_limits": asdict(self.budget_limits),
            "servers": [_server_identity(server) for server in self.servers],
            "evaluator": self.evaluator.model_dump(mode="json") if self.evaluator else None,
            "turn_settings": self.turn_settings.conditions(),
            # Left out as the default: earlier runs had no other, and stay comparable.
            **({"tool_chars": self.tool_chars} if self.tool_chars != MAX_MODEL_CHARS else {}),
            **({"verify": self._verified_content()} if self.verifications else {}),
        }
        return hash_content(content)

    def _verified_content(self) -> list[object]:
        return [
            [_server_identity(server) for server in self.hidden_servers],
            *(
                {
                    "tool": check.tool,
                    "server": check.server,
                    "arguments": check.arguments,
                    "evaluator": check.evaluator.model_dump(mode="json")
                    if check.evaluator
                    else None,
                }
                for check in self.verifications
            ),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAttempt:
    """One trial of a task."""

    task: PlannedTask
    trial: int

    @property
    def key(self) -> AttemptKey:
        task = self.task
        return AttemptKey(task.file, task.scenario, task.name, task.model, self.trial)

    @property
    def label(self) -> str:
        name = attempt_name(self.task.name, self.trial)
        return f"{self.task.scenario} / {name} {self.task.model}".rstrip()

    @property
    def queue_key(self) -> tuple[str | int, ...]:
        """Attempts with the same key run one after the other, in one queue."""
        task = self.task
        return (task.file, task.scenario, self.trial) if task.in_order else self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class McpRunPlan:
    """The tasks and settings of a run.

    `completed_results` and `known_servers` are those of an interrupted run that this run resumes;
    `stored_keys` identifies attempts whose results the caller stores. `secret_values` are masked
    everywhere, `host_values` in messages about servers. `prices` are keyed by model; the cost of another model is unknown.
    """

    tasks: tuple[PlannedTask, ...]
    trials: int = 1
    concurrency: int = 4
    prices: Mapping[str, Price] = field(default_factory=dict)
    completed_results: tuple[TaskResult, ...] = ()
    known_servers: tuple[ServerFacts, ...] = ()
    stored_keys: frozenset[AttemptKey] = frozenset()
    timestamp: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    secret_values: frozenset[str] = field(default=frozenset(), repr=False)
    host_values: frozenset[str] = field(default=frozenset(), repr=False)
    trace: bool = False

    def attempts(self) -> Iterator[PlannedAttempt]:
        """All attempts in order: the first trial of every task, then the second trial, and so on."""
        for trial in range(self.trials):
            for task in self.tasks:
                yield PlannedAttempt(task=task, trial=trial)

    def refused_tasks(self) -> list[PlannedTask]:
        """The tasks that cannot run."""
        return [task for task in self.tasks if task.refusal is not None]

    def missing_attempts(self) -> list[PlannedAttempt]:
        """The attempts without a result."""
        return [attempt for queue in self.missing_queues() for attempt in queue]

    def missing_queues(self) -> list[list[PlannedAttempt]]:
        """The attempts without a result; attempts that run one after the other form one list.

        If one attempt of an `in_order` scenario is missing, the whole queue is repeated: the attempt
        depends on the server state that the attempts before it leave behind.
        """
        finished_keys = self.stored_keys.union(result.key for result in self.completed_results)
        queues = (
            list(queue)
            for _, queue in groupby(self.attempts(), key=lambda attempt: attempt.queue_key)
        )
        return [
            queue for queue in queues if any(attempt.key not in finished_keys for attempt in queue)
        ]


def _server_identity(server: PlannedServer) -> dict[str, Any]:
    excluded_fields = {"env", "headers", "timeout"}
    config = server.config.model_dump(mode="json", exclude=excluded_fields, exclude_none=True)
    return {"name": server.name, **config}
