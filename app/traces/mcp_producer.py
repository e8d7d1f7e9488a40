"""A file of ot-bench at work, as a benchmark orders it."""

import hashlib
import os
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from app.core.resources import Resources
from app.harness.bash.background import in_background
from app.harness.budget import Budget, BudgetLimits, UsedBudget
from app.harness.mcp.lint import lint
from app.harness.mcp.loader import inspect_text, require_usable
from app.harness.mcp.plan import Attempt, LlmEndpoint, Plan, PlannedTask
from app.harness.mcp.planning import Keys, Overrides, Selection, plan_tasks, require_keys, unpriced
from app.harness.mcp.schemas import McpHarnessSettings
from app.harness.mcp.secrets import find_secrets
from app.harness.mcp.types import AttemptEnded, ErrorKind, Event, McpReport, TaskResult
from app.harness.results import AttemptOutcome
from app.llm.conversation import Llm, TurnSettings
from app.llm.prices import Price
from app.llm.providers import KEYS, open_llm
from app.llm.retry import ATTEMPT_TIMEOUT_S
from app.traces.mcp_traces import trace_of
from app.traces.registry import CollectionFailed
from app.traces.trace_producer import ProducedTrace, read_file

BEAT_S: Final = 1.0
MAX_ANSWER: Final = 32 * 1024 * 1024
OWN: Final = "MOSAICO_"  # variables of this service; no server is given them

_SETTLED: Final = (AttemptOutcome.SCORED, AttemptOutcome.AGENT_ERROR, AttemptOutcome.TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpProducer:
    """The attempts of a file, all that can be wrong about it known."""

    resources: Resources
    plan: Plan
    budget_limits: BudgetLimits

    @property
    def total(self) -> int:
        return self.plan.trials * len(self.plan.tasks)

    @property
    def digest(self) -> str:
        asked = ",".join(f"{_name(each)}#{each.task.content_hash()}" for each in self._attempts())
        return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def budget(self, spent: UsedBudget) -> Budget:
        return spent.resume(self.budget_limits)

    def make(self, places: Collection[int], budget: Budget) -> Iterator[Sequence[ProducedTrace]]:
        """Raises: `CollectionFailed` when nothing came of any attempt, for the model's sake."""
        place_of = {each.key: place for place, each in enumerate(self._attempts())}
        stored = frozenset(key for key, place in place_of.items() if place not in places)
        plan = replace(self.plan, made=stored)
        answered, refusal = False, ""
        pages: Generator[list[TaskResult], None, None] = in_background(
            lambda tell: self._run(plan, tell, budget), beat_s=BEAT_S
        )
        try:
            for results in pages:
                for result in results:
                    if result.error is not None and result.error.kind is ErrorKind.PROVIDER:
                        refusal = result.error.detail
                    elif result.outcome is not AttemptOutcome.SKIPPED:
                        answered = True
                made = [_made(each, place_of[each.key]) for each in results]
                # What is stored already may be made again for what it leaves with a server.
                yield [each for each in made if each.place in places]
        finally:
            pages.close()
        if refusal and not answered:
            raise CollectionFailed(
                f"no model answered any task: {refusal}; mend that, then retry the run",
                code="MODEL_REFUSED",
            )

    def _run(
        self, plan: Plan, tell: Callable[[TaskResult], None], budget: Budget
    ) -> Coroutine[Any, Any, McpReport]:
        # The SDKs take seconds to import; a service that runs no file does without.
        from app.harness.mcp.run import run_plan
        from app.harness.mcp.sessions import Surroundings

        def hear(event: Event) -> None:
            if isinstance(event, AttemptEnded):
                tell(event.result)

        around = Surroundings(
            path=os.environ.get("PATH", os.defpath), policy=self.resources.outbound
        )
        return run_plan(plan, hear, surroundings=around, opening=self._llm, budget=budget)

    def _llm(self, endpoint: LlmEndpoint, model: str) -> Llm:
        from app.core.http.async_client import outbound_async_client

        key = endpoint.api_key
        return open_llm(
            endpoint.provider,
            model,
            base_url=endpoint.base_url,
            settings=TurnSettings(),
            environment={KEYS[endpoint.provider]: key} if key else {},
            http=outbound_async_client(
                timeout_s=ATTEMPT_TIMEOUT_S, max_bytes=MAX_ANSWER, policy=self.resources.outbound
            ),
        )

    def _attempts(self) -> list[Attempt]:
        return list(self.plan.attempts())


def mcp_producer(resources: Resources, dataset_ref: str, wanted: McpHarnessSettings) -> McpProducer:
    """Raises: `CollectionFailed`, or what the file, its secrets or its keys are found to lack."""
    secrets = find_secrets(None)
    around = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    file = lint(inspect_text(read_file(resources, dataset_ref), dataset_ref, secrets, around))
    require_usable([file])
    keys = Keys(
        secrets=secrets,
        environment={name: key.reveal() for name, key in resources.model_keys.items()},
    )
    chosen = Selection(scenarios=wanted.scenarios, tasks=wanted.tasks, tags=wanted.tags)
    models = Overrides(models=[wanted.model] if wanted.model else [])
    tasks = plan_tasks([file], chosen, models, keys)
    require_keys(tasks, keys)
    plan = Plan(
        tasks=tasks,
        trials=wanted.trials,
        concurrency=wanted.concurrency,
        prices=_prices(wanted, tasks),
        hidden=frozenset(secrets.values.values()),
    )
    return McpProducer(resources=resources, plan=plan, budget_limits=wanted.run_limits())


def _prices(wanted: McpHarnessSettings, tasks: Sequence[PlannedTask]) -> dict[str, Price]:
    """Raises: `CollectionFailed` where a limit in dollars would bound nothing."""
    prices = {model: price.price() for model, price in wanted.prices.items()}
    if missing := unpriced(tasks, prices, wanted.run_limits()):
        raise CollectionFailed(
            f"a limit in dollars needs the price of {missing[0]}; add it to the prices of the"
            " benchmark's harness",
            code="NO_PRICE",
        )
    return prices


def _made(result: TaskResult, place: int) -> ProducedTrace:
    return ProducedTrace(place=place, trace=trace_of(result), settled=result.outcome in _SETTLED)


def _name(attempt: Attempt) -> str:
    return "/".join(map(str, attempt.key))
