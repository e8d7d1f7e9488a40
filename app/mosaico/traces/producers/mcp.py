"""The trace producer of ot-bench files: runs models and tools against MCP servers."""

import hashlib
import os
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mosaico.core.resources import Resources
from mosaico.harness.background import run_in_background
from mosaico.harness.budget import Budget, UsedBudget
from mosaico.harness.harness_config import McpHarnessSettings
from mosaico.harness.limits import BudgetLimits
from mosaico.harness.mcp.lint import lint
from mosaico.harness.mcp.loader import host_values, load_text, require_valid, secret_values
from mosaico.harness.mcp.plan import LlmEndpoint, McpRunPlan, PlannedAttempt, PlannedTask
from mosaico.harness.mcp.plan_builder import (
    ModelKeys,
    PlanOverrides,
    TaskSelection,
    models_without_price,
    plan_tasks,
    require_keys,
    require_options,
)
from mosaico.harness.mcp.secrets import find_secrets
from mosaico.harness.mcp.types import AttemptEnded, ErrorKind, Event, McpReport, TaskResult
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.conversation import Llm, TurnSettings
from mosaico.llm.prices import Price
from mosaico.llm.providers import KEYS
from mosaico.traces.producers.mcp_traces import trace_of
from mosaico.traces.producers.trace_producer import (
    HEARTBEAT_S,
    AnswerWatch,
    ProducedTrace,
    mask_trace,
    open_guarded_llm,
    read_file,
    service_secrets,
)
from mosaico.traces.registry import CollectionFailed

SERVICE_PREFIX: Final = "MOSAICO_"  # the service's own variables, which no MCP server may read

# The outcomes for which the agent is responsible; after all others a retry makes the attempt again.
_SETTLED: Final = (AttemptOutcome.SCORED, AttemptOutcome.AGENT_ERROR, AttemptOutcome.TIMEOUT)

# The errors that an attempt can have before any request to a model.
_ERRORS_BEFORE_REQUESTS: Final = (
    ErrorKind.CONFIGURATION,
    ErrorKind.SERVER_START,
    ErrorKind.SERVER_DIED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpProducer:
    """The validated attempts of a benchmark file."""

    resources: Resources
    plan: McpRunPlan
    run_budget: BudgetLimits

    @property
    def total(self) -> int:
        return self.plan.trials * len(self.plan.tasks)

    @property
    def fingerprint(self) -> str:
        # The content of every task: an edited task must not be completed with attempts of the old
        # one.
        content = ",".join(
            f"{_key_text(attempt)}#{attempt.task.content_hash()}" for attempt in self._attempts()
        )
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def budget(self, used_budget: UsedBudget) -> Budget:
        return used_budget.resume(self.run_budget)

    def produce(
        self, indexes: Collection[int], budget: Budget
    ) -> Iterator[Sequence[ProducedTrace]]:
        """Raises: `CollectionFailed` when models rejected every attempt."""
        index_of = {attempt.key: index for index, attempt in enumerate(self._attempts())}
        stored = frozenset(key for key, index in index_of.items() if index not in indexes)
        plan = replace(self.plan, stored_keys=stored)
        answers = AnswerWatch()
        secrets = service_secrets(self.resources) | self.plan.secret_values
        pages: Generator[list[TaskResult], None, None] = run_in_background(
            lambda send: self._run(plan, send, budget), heartbeat_s=HEARTBEAT_S
        )
        try:
            for results in pages:
                for result in results:
                    if _tells_of_provider(result):
                        answers.add(failure=_provider_failure(result))
                produced = [_produced(result, index_of[result.key], secrets) for result in results]
                # A scenario that runs in order repeats stored attempts for their effect on its
                # servers; their traces are not stored twice.
                yield [trace for trace in produced if trace.index in indexes]
        finally:
            # Also when the consumer stops: it cancels the attempts in progress, which would go on
            # to cost money.
            pages.close()
        answers.require_answer()

    def _run(
        self, plan: McpRunPlan, send: Callable[[TaskResult], None], budget: Budget
    ) -> Coroutine[Any, Any, McpReport]:
        # The MCP SDK takes seconds to import; a service that runs no such file does without.
        from mosaico.harness.mcp.agent_loop.run import run_plan
        from mosaico.harness.mcp.servers.server import ServerEnvironment

        def on_event(event: Event) -> None:
            if isinstance(event, AttemptEnded):
                send(event.result)

        server_environment = ServerEnvironment(
            path=os.environ.get("PATH", os.defpath), policy=self.resources.outbound
        )
        return run_plan(
            plan,
            on_event,
            server_environment=server_environment,
            open_llm_model=self._open_llm,
            budget=budget,
        )

    def _open_llm(self, endpoint: LlmEndpoint, model: str, settings: TurnSettings) -> Llm:
        key = endpoint.api_key
        return open_guarded_llm(
            self.resources,
            endpoint.provider,
            model,
            base_url=endpoint.base_url,
            settings=settings,
            environment={KEYS[endpoint.provider]: key} if key else {},
        )

    def _attempts(self) -> list[PlannedAttempt]:
        return list(self.plan.attempts())


def mcp_producer(
    resources: Resources, dataset_ref: str, settings: McpHarnessSettings
) -> McpProducer:
    """The producer of a benchmark file, its secrets and keys validated.

    Raises: `CollectionFailed`, or the error of an invalid file.
    """
    secrets = find_secrets(None)
    environment = {
        name: text for name, text in os.environ.items() if not name.startswith(SERVICE_PREFIX)
    }
    file = lint(load_text(read_file(resources, dataset_ref), dataset_ref, secrets, environment))
    require_valid([file], strict=settings.strict)
    keys = ModelKeys(
        secrets=secrets,
        environment={name: key.reveal() for name, key in resources.model_keys.items()},
    )
    selection = TaskSelection(
        scenarios=settings.scenarios, tasks=settings.tasks, tags=settings.tags
    )
    overrides = PlanOverrides(
        models=[settings.model] if settings.model else [], turn_settings=settings.turn_settings()
    )
    tasks = plan_tasks([file], selection, overrides, keys)
    # Before any model runs: a missing key would otherwise fail attempt by attempt.
    require_options(tasks)
    require_keys(tasks, keys)
    plan = McpRunPlan(
        tasks=tasks,
        trials=settings.trials,
        concurrency=settings.concurrency,
        prices=_prices(settings, tasks),
        secret_values=secret_values([file], secrets),
        host_values=host_values([file]),
    )
    return McpProducer(resources=resources, plan=plan, run_budget=settings.run_limits())


def _prices(settings: McpHarnessSettings, tasks: Sequence[PlannedTask]) -> dict[str, Price]:
    """Raises: `CollectionFailed` when a cost limit needs a price that is missing."""
    prices = {model: price.price() for model, price in settings.prices.items()}
    if missing := models_without_price(tasks, prices, settings.run_limits()):
        raise CollectionFailed(
            f"the cost limit needs the price of {missing[0]}; add it to the prices in the harness"
            " settings of the benchmark",
            code="NO_PRICE",
        )
    return prices


def _produced(result: TaskResult, index: int, secrets: Collection[str]) -> ProducedTrace:
    trace = mask_trace(trace_of(result), secrets)
    return ProducedTrace(index=index, trace=trace, is_settled=result.outcome in _SETTLED)


def _tells_of_provider(result: TaskResult) -> bool:
    """False for an attempt that ended before its first request, for example without its server."""
    is_lost = result.error is not None and result.error.kind in _ERRORS_BEFORE_REQUESTS
    return not (is_lost and not result.llm_calls) and result.outcome is not AttemptOutcome.SKIPPED


def _provider_failure(result: TaskResult) -> str | None:
    """Return the reason why the model did not answer; None when it did, or when no model
    was asked.
    """
    error = result.error
    return error.detail if error is not None and error.kind is ErrorKind.PROVIDER else None


def _key_text(attempt: PlannedAttempt) -> str:
    return "/".join(map(str, attempt.key))
