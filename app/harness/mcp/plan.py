"""What is to be run, with every default settled and every variable filled in.

`run.run_plan` takes a Plan, tells each result as an event the moment it is there, and returns the
whole report; files are written by whoever listens.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from app.harness.budget import BudgetLimits
from app.harness.mcp.config import (
    DEFAULT_MAX_TURNS,
    EvaluatorConfig,
    HttpServer,
    StdioServer,
    TaskType,
)
from app.harness.mcp.types import AttemptKey, ServerFacts, TaskResult
from app.llm.conversation import Provider
from app.llm.prices import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedServer:
    """A server that a task uses. The `env` of a stdio server is complete but for `PATH`."""

    name: str
    config: StdioServer | HttpServer


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmEndpoint:
    """Where the models of a file are asked."""

    provider: Provider
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """A task for one model (none asked: empty), as it is run.

    `prompts` are the parts of one conversation, empty for a direct task; `tool` and `arguments`
    are of direct tasks. Tasks of one scenario with `share_servers` use the same started servers, each
    trial its own where they run `in_order`.
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
    budget_limits: BudgetLimits = field(default_factory=BudgetLimits)
    evaluator: EvaluatorConfig | None = None
    share_servers: bool = False
    in_order: bool = False

    def server_names(self) -> tuple[str, ...]:
        return tuple(server.name for server in self.servers)

    def models(self) -> list[str]:
        """The model that works on it, if one does, and the one that judges it."""
        names = [self.model] if self.type is TaskType.HARNESS else []
        if self.evaluator is not None and self.evaluator.prompt and self.evaluator.model:
            names.append(self.evaluator.model)
        return names

    def content_hash(self) -> str:
        """What makes two attempts comparable: all that the model sees and all that is judged.

        The environment and headers of a server are left out: secrets come and go.
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
        }
        text = json.dumps(content, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAttempt:
    """One try at a task."""

    task: PlannedTask
    trial: int

    @property
    def key(self) -> AttemptKey:
        task = self.task
        return AttemptKey(task.file, task.scenario, task.name, task.model, self.trial)

    @property
    def queue_key(self) -> tuple[str | int, ...]:
        """What it shares with the attempts that it stands in one queue with."""
        task = self.task
        return (task.file, task.scenario, self.trial) if task.in_order else self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """All that a run is told; `done` are the results of an earlier part of it and `servers` those
    that it met, `made` are attempts whose results somebody else keeps.

    `hidden` are secrets that nothing told of a server may hold. `prices` are by the name of the model; of a model that is not there the cost is unknown.
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
    trace: bool = False

    def attempts(self) -> Iterator[PlannedAttempt]:
        """Every attempt in its order: all tasks once, then all of them again."""
        for trial in range(self.trials):
            for task in self.tasks:
                yield PlannedAttempt(task=task, trial=trial)

    def missing_attempts(self) -> list[PlannedAttempt]:
        """The attempts that are to be made."""
        return [attempt for queue in self.missing_queues() for attempt in queue]

    def missing_queues(self) -> list[list[PlannedAttempt]]:
        """What neither `done` nor `made` holds: attempts that wait for each other in one list.

        Where one of a scenario `in_order` is missing, all are made again: it needs what those
        before it left with the servers.
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
    return {"name": server.name, **server.config.model_dump(mode="json", exclude=excluded_fields)}
