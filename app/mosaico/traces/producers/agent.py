"""The trace producer of agents that the operator provides: one command per attempt at an item."""

import os
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ValidationError

from mosaico.core.errors import AppError
from mosaico.core.masking import is_secret_name
from mosaico.core.parameter_names import UserInterface, messages_for
from mosaico.core.resources import Resources
from mosaico.core.schemas import WireModel
from mosaico.core.strict_json import parse_json
from mosaico.harness.background import run_in_background
from mosaico.harness.budget import Budget, RunBudgetExhausted, UsedBudget
from mosaico.harness.harness_config import AgentHarnessSettings
from mosaico.traces.datasets.queries import load_version
from mosaico.traces.execution.answers import AgentAnswer, AnswerFormat, trace_of_answer
from mosaico.traces.execution.command import AgentCommand, parse_command
from mosaico.traces.execution.items import (
    FINISHED_OUTCOMES,
    LANGFUSE_PREFIX,
    ItemAttempt,
    fingerprint_of,
    items_of,
    plan_attempts,
    unique_items,
)
from mosaico.traces.execution.runner import ExecutionLimits, run_agent
from mosaico.traces.files.trace_file import FILE_SUFFIXES, read_items
from mosaico.traces.producers.trace_producer import (
    HEARTBEAT_S,
    ProducedTrace,
    mask_trace,
    read_file,
    service_secrets,
)
from mosaico.traces.registry import TRACE_SOURCES, CommandsNotAllowed, TraceQuery
from mosaico.traces.types import DatasetItem, Trace, TraceOutcome

# What every program needs; the variables of the service, with its keys, stay out.
INHERITED_VARIABLES: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")


class AllowedCommand(WireModel):
    """An entry of MOSAICO_AGENT_COMMANDS.

    `environment` names variables of the worker that the command gets; their values are masked in
    traces when their names are those of secrets.
    """

    command: str
    answer_format: AnswerFormat = AnswerFormat.TEXT
    environment: list[str] = Field(default_factory=list)
    folder: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProducer:
    """The command and the planned attempts of a benchmark."""

    settings: AgentHarnessSettings
    command: AgentCommand
    attempts: Sequence[ItemAttempt]
    secrets: Collection[str]

    @property
    def total(self) -> int:
        return len(self.attempts)

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.attempts)

    def budget(self, used_budget: UsedBudget) -> Budget:
        return used_budget.resume(self.settings.run_limits())

    def produce(
        self, indexes: Collection[int], budget: Budget
    ) -> Iterator[Sequence[ProducedTrace]]:
        missing = {self.attempts[index].trace_id: index for index in sorted(indexes)}
        limits = ExecutionLimits(
            concurrency=self.settings.concurrency, item_s=self.settings.item_seconds
        )
        attempts = [self.attempts[index] for index in missing.values()]
        pages: Generator[list[Trace], None, None] = run_in_background(
            lambda send: run_agent(
                self.command, attempts, limits, budget, lambda _, trace: send(trace)
            ),
            heartbeat_s=HEARTBEAT_S,
        )
        try:
            for traces in pages:
                yield [
                    ProducedTrace(
                        index=missing.pop(trace.trace_id),
                        trace=mask_trace(trace, self.secrets),
                        is_settled=trace.outcome in FINISHED_OUTCOMES,
                    )
                    for trace in traces
                ]
        finally:
            # Also when the consumer stops: it kills the agents in progress.
            pages.close()
        if missing:
            yield [self._not_made(index, budget) for index in missing.values()]

    def _not_made(self, index: int, budget: Budget) -> ProducedTrace:
        """An attempt that did not begin, because the budget of the run is exhausted."""
        kind = budget.exhausted()
        assert kind is not None
        answer = AgentAnswer(error=str(RunBudgetExhausted(kind)), outcome=TraceOutcome.INFRA_ERROR)
        trace = trace_of_answer(self.attempts[index], answer, latency_ms=None)
        return ProducedTrace(index=index, trace=trace, is_settled=False)


def agent_producer(
    resources: Resources, query: TraceQuery, settings: AgentHarnessSettings
) -> AgentProducer:
    """The producer of a benchmark, its command and its dataset checked.

    Raises: `CollectionFailed`, or the error of an invalid file.
    """
    allowed = _allowed_command(resources, settings.command)
    secrets = service_secrets(resources) | {
        os.environ[name]
        for name in allowed.environment
        if is_secret_name(name) and os.environ.get(name)
    }
    return AgentProducer(
        settings=settings,
        command=_command(allowed, os.environ),
        attempts=plan_attempts(_load_items(resources, query), settings.trials),
        secrets=secrets,
    )


def _allowed_command(resources: Resources, name: str) -> AllowedCommand:
    """The command of that name. Raises: `CollectionFailed`."""
    file = resources.options.get("agent_commands")
    if not file:
        raise CommandsNotAllowed(
            "the workers may not run commands; ask the operator to list the command in the file "
            "of MOSAICO_AGENT_COMMANDS"
        )
    commands = _read_commands(Path(file))
    if name not in commands:
        raise CommandsNotAllowed(
            f"the command {name!r} is not allowed; allowed commands: "
            f"{', '.join(commands) or 'none'}"
        )
    return commands[name]


def _read_commands(file: Path) -> dict[str, AllowedCommand]:
    try:
        document: Any = parse_json(file.read_bytes())
        return {name: AllowedCommand.model_validate(entry) for name, entry in document.items()}
    except (OSError, AppError, ValidationError, AttributeError) as error:
        raise CommandsNotAllowed(
            f"the file of MOSAICO_AGENT_COMMANDS cannot be read: {_first_line(error)}; write"
            ' {"NAME": {"command": "/path/agent {input}"}}'
        ) from None


def _first_line(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error)).partition("\n")[0]


def _command(allowed: AllowedCommand, worker: Mapping[str, str]) -> AgentCommand:
    names = (*INHERITED_VARIABLES, *allowed.environment)
    environment = {name: worker[name] for name in names if name in worker}
    try:
        return parse_command(allowed.command, environment, allowed.answer_format, allowed.folder)
    except AppError as error:
        raise CommandsNotAllowed(f"the command cannot run on this worker: {error.detail}") from None


def _load_items(resources: Resources, query: TraceQuery) -> list[DatasetItem]:
    """The items of the dataset: those of its version, a Langfuse dataset, a file of the harness folder, or an upload."""
    name = query.dataset_ref or ""
    if query.dataset_version is not None:
        with resources.db.read() as session:
            version = load_version(session, name, query.dataset_version)
        return unique_items((item for item in version.items.values() if item.input), name)
    if name.startswith(LANGFUSE_PREFIX):
        dataset = replace(query, dataset_ref=name.removeprefix(LANGFUSE_PREFIX))
        return unique_items(_list_items("langfuse", resources, dataset), name)
    if Path(name).suffix.lower() in FILE_SUFFIXES:
        with messages_for(UserInterface.SERVICE):
            return items_of(read_items(name, BytesIO(read_file(resources, name))), name)
    return unique_items(_list_items("local", resources, query), name)


def _list_items(source: str, resources: Resources, query: TraceQuery) -> Iterator[DatasetItem]:
    list_items = TRACE_SOURCES.get(source).list_items
    assert list_items is not None
    return list_items(resources, query)
