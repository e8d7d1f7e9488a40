"""One attempt at a task: starts the servers, runs the conversation, evaluates the answer."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mosaico.harness.budget import Budget, RunBudgetExhausted
from mosaico.harness.judge import JudgeError
from mosaico.harness.mcp.agent_loop.attempt_record import AttemptRecord, TraceSink
from mosaico.harness.mcp.agent_loop.conversation import Conversation
from mosaico.harness.mcp.agent_loop.model_pool import (
    AttemptJudge,
    ModelGivenUp,
    ModelKey,
    ModelPool,
)
from mosaico.harness.mcp.agent_loop.toolbox import Toolbox, ToolRoute, rejected_call
from mosaico.harness.mcp.agent_loop.verification import (
    VerifiedCall,
    call_verifications,
    evaluate_verifications,
)
from mosaico.harness.mcp.config import TaskType
from mosaico.harness.mcp.evaluator_registry import EvaluatorEvidence, accepts_error, evaluate
from mosaico.harness.mcp.plan import PlannedAttempt, PlannedTask
from mosaico.harness.mcp.servers.pool import ServerPool
from mosaico.harness.mcp.servers.server import McpServer, ServerError
from mosaico.harness.mcp.types import OUTCOMES, AttemptError, ErrorKind, Evaluation, TaskResult
from mosaico.harness.results import (
    AttemptOutcome,
    ConversationEnding,
    NamedEnding,
    ProviderRetries,
    ending_of_error,
)
from mosaico.harness.running_attempts import announce_model
from mosaico.harness.watched_llm import WatchedLlm
from mosaico.llm.conversation import without_images
from mosaico.llm.errors import LlmError
from mosaico.llm.prices import Price

MAX_ERROR_CHARS: Final = 500  # of the error of a tool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptContext:
    """The resources that the attempts of a run share; `budget` is that of the whole run."""

    servers: ServerPool
    models: ModelPool
    prices: Mapping[str, Price] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)


async def run_attempt(
    attempt: PlannedAttempt, context: AttemptContext, trace: TraceSink
) -> TaskResult:
    """Execute and evaluate one attempt. All its errors are part of the result."""
    runner = _AttemptRunner(attempt, context, trace)
    if attempt.task.refusal is not None:
        detail = attempt.task.refusal
        return runner.result(AttemptError(kind=ErrorKind.CONFIGURATION, detail=detail))
    return runner.result(await runner.evaluate(await runner.execute()))


class _AttemptRunner:
    """Executes one attempt."""

    def __init__(self, attempt: PlannedAttempt, context: AttemptContext, trace: TraceSink) -> None:
        self._attempt = attempt
        self._task = attempt.task
        self._context = context
        self._record = AttemptRecord(trace=trace)
        self._budget = Budget(
            limits=attempt.task.budget_limits,
            price=context.prices.get(attempt.task.model),
            parent=context.budget,
            max_output_tokens=attempt.task.turn_settings.max_output_tokens,
        )
        self._judge = AttemptJudge(context.models, attempt.task, context.prices, context.budget)
        self._llm: WatchedLlm | None = None
        self._ended: NamedEnding | None = None
        self._evaluations: tuple[Evaluation, ...] = ()
        self._verified_calls: list[VerifiedCall] = []
        self._duration_s: float | None = None

    async def execute(self) -> AttemptError | None:
        """Run the conversation or the direct call within the timeout; servers stop afterwards.

        The time of the attempt begins when its servers have started; without that, it is the time
        of their failed start.
        """
        start_time = time.monotonic()
        error = await self._execute()
        if self._duration_s is None:
            self._duration_s = time.monotonic() - start_time
        return error

    async def _execute(self) -> AttemptError | None:
        try:
            self._budget.require_run_budget()
            async with self._context.servers.servers_for(self._attempt) as servers:
                error = await self._run_in_time(servers[: len(self._task.servers)])
                self._verified_calls = await call_verifications(self._task, servers)
                return error
        except TimeoutError:
            error = self._timeout_error()
        except RunBudgetExhausted as exhausted:
            error = AttemptError(kind=ErrorKind.RUN_LIMIT, detail=str(exhausted))
        except ServerError as failure:
            error = AttemptError(kind=failure.kind, detail=failure.detail)
        except JudgeError as failure:
            error = AttemptError(kind=ErrorKind.JUDGE, detail=str(failure))
        except ModelGivenUp as given_up:
            error = AttemptError(
                kind=ErrorKind.PROVIDER, detail=f"no request was sent: {given_up.reason}"
            )
        except LlmError as failure:
            error = self._provider_error(failure)
        if self._task.type is TaskType.HARNESS and self._ended is None:
            self._ended = NamedEnding(ConversationEnding.ERROR)
        return error

    async def _run_in_time(self, servers: list[McpServer]) -> AttemptError | None:
        """Run the task within its timeout. Raises TimeoutError and the errors of `_run_task`."""
        start_time = time.monotonic()
        try:
            async with asyncio.timeout(self._task.timeout_s):
                return await self._run_task(servers)
        finally:
            self._duration_s = time.monotonic() - start_time
            self._record.close_pending()

    async def evaluate(self, error: AttemptError | None) -> AttemptError | None:
        """Evaluate the answer, or an expected error, and the verifications; returns the error of the
        attempt, if any.

        The text of an expected error is the answer. An error of a server or provider that is not
        exactly the expected one stays an error: the attempt is not evidence about the agent. An
        attempt without the verifications of its task is never evaluated.
        """
        if error is not None and self._task.verifications:
            return error
        evaluator = self._task.evaluator
        if error is not None and (evaluator is None or not accepts_error(evaluator, error)):
            return error
        try:
            evaluations = await self._evaluate_answer(error)
            evaluations += await evaluate_verifications(self._verified_calls, self._judge.ask)
        except JudgeError as failure:
            return error or AttemptError(kind=ErrorKind.JUDGE, detail=str(failure))
        has_failure = any(evaluation.passed is False for evaluation in evaluations)
        if error is not None and OUTCOMES[error.kind].is_error and has_failure:
            return error
        self._evaluations = evaluations
        self._record.expected_error = error.detail if error else None
        return None

    async def _evaluate_answer(self, error: AttemptError | None) -> tuple[Evaluation, ...]:
        if self._task.evaluator is None:
            return ()
        evidence = EvaluatorEvidence(
            response=self._record.answer() or "",
            error=error.detail if error else self._record.last_error(),
            tool_calls=self._record.all_calls(),
        )
        return await evaluate(self._task.evaluator, evidence, self._judge.ask)

    def result(self, error: AttemptError | None) -> TaskResult:
        task, record = self._task, self._record
        response = record.answer()
        if _expects_error(task):
            response = record.last_error() or response
        return TaskResult(
            file=task.file,
            scenario=task.scenario,
            task=task.name,
            type=task.type,
            model=task.model,
            servers=task.server_names(),
            trial=self._attempt.trial,
            outcome=OUTCOMES[error.kind] if error else AttemptOutcome.SCORED,
            content_hash=task.content_hash(),
            tags=task.tags,
            error=error,
            ending=self._ended.ending if self._ended else None,
            ending_detail=self._ended.detail if self._ended else None,
            response=response,
            evaluations=self._evaluations,
            llm_calls=tuple(record.llm_calls),
            tool_calls=tuple(record.all_calls()),
            system=record.system,
            messages=tuple(map(without_images, record.messages)),
            duration_ms=1000 * (self._duration_s or 0.0),
            cost_usd=self._budget.cost_usd if record.llm_calls else None,
            judge=self._judge.usage(),
            retries=self._llm.retries() if self._llm is not None else ProviderRetries(),
        )

    async def _run_task(self, servers: list[McpServer]) -> AttemptError | None:
        if self._task.type is TaskType.DIRECT:
            return await self._call_tool(servers)
        model_key = ModelKey(self._task.endpoint, self._task.model, self._task.turn_settings)
        try:
            self._llm = WatchedLlm(self._context.models.get(model_key, self._attempt.trial))
            announce_model(self._llm)
            conversation = Conversation(self._task, self._llm, servers, self._record, self._budget)
            self._ended = await conversation.run()
        except LlmError as failure:
            # A conversation that is too long, or that a filter refuses, is the result of the model.
            self._ended = ending_of_error(failure)
            if self._ended is not None:
                return None
            if failure.final:
                self._context.models.give_up(model_key, self._task.name, failure)
            raise
        return None

    def _timeout_error(self) -> AttemptError:
        """The error of a timeout: of the provider when a request was in flight, else of the agent."""
        failure = self._llm.timeout_error(self._task.timeout_s) if self._llm is not None else None
        if failure is not None:
            return self._provider_error(failure)
        awaited = self._record.awaited()
        pending = f"; it was waiting for {awaited}" if awaited else ""
        detail = f"not completed within its timeout of {self._task.timeout_s:g} s{pending}"
        return AttemptError(kind=ErrorKind.TIMEOUT, detail=detail)

    def _provider_error(self, failure: LlmError) -> AttemptError:
        detail = f"the model did not answer: {self._task.model}: {failure.reason}"
        return AttemptError(kind=ErrorKind.PROVIDER, detail=detail)

    async def _call_tool(self, servers: list[McpServer]) -> AttemptError | None:
        tool, arguments = self._task.tool or "", self._task.arguments
        route = _route(tool, servers)
        server_name, tool_name = (route.server.name, route.tool) if route else ("", tool)
        number = self._record.begin_call(server_name, tool_name, arguments)
        if route is not None:
            call = await route.server.call(route.tool, arguments)
        else:
            call = rejected_call("", tool, arguments, Toolbox(servers).describe_unknown(tool))
        self._record.finish_call(number, call)
        if call.is_error and not _expects_error(self._task):
            location = f"{call.tool} of {call.server}" if call.server else call.tool
            detail = f"{location}: {call.text[:MAX_ERROR_CHARS]}"
            return AttemptError(kind=ErrorKind.TOOL, detail=detail)
        return None


def _route(tool: str, servers: list[McpServer]) -> ToolRoute | None:
    """The server of a direct call. A single server decides itself which tools it has."""
    if len(servers) == 1:
        return ToolRoute(servers[0], tool)
    return Toolbox(servers).find_for_direct_call(tool)


def _expects_error(task: PlannedTask) -> bool:
    return task.evaluator is not None and task.evaluator.expect_error
