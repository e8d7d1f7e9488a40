"""One attempt at a task, from the start of its servers to what its evaluator says."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from app.harness.budget import Budget, RunBudgetExhausted
from app.harness.judge import JudgeError
from app.harness.mcp.config import TaskType
from app.harness.mcp.evaluating import Evidence, evaluate, names_error
from app.harness.mcp.looping.conversation import Conversation
from app.harness.mcp.looping.models import Asking, Choice, Models
from app.harness.mcp.looping.work import Trace, Work
from app.harness.mcp.plan import Attempt, PlannedTask
from app.harness.mcp.servers import Servers
from app.harness.mcp.sessions import McpServer, ServerFailed
from app.harness.mcp.types import OUTCOMES, AttemptError, ErrorKind, Evaluation, TaskResult
from app.harness.results import AttemptOutcome, ConversationEnding
from app.llm.errors import LlmError
from app.llm.prices import Price

SHOWN: Final = 500  # characters of a tool's error


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What attempts are made with; `budget` is that of the whole run."""

    servers: Servers
    models: Models
    prices: Mapping[str, Price] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)


async def make_attempt(attempt: Attempt, workshop: Workshop, trace: Trace) -> TaskResult:
    """Work on a task and judge the answer. Whatever goes wrong with it is told in the result."""
    making = _Making(attempt, workshop, trace)
    return making.result(await making.judge(await making.work()))


class _Making:
    """An attempt while it is made."""

    def __init__(self, attempt: Attempt, workshop: Workshop, trace: Trace) -> None:
        self._attempt = attempt
        self._task = attempt.task
        self._workshop = workshop
        self._work = Work(trace=trace)
        self._budget = Budget(
            limits=attempt.task.budget_limits,
            price=workshop.prices.get(attempt.task.model),
            parent=workshop.budget,
        )
        self._asking = Asking(
            workshop.models, attempt.task.endpoint, workshop.prices, workshop.budget
        )
        self._ending: ConversationEnding | None = None
        self._evaluations: tuple[Evaluation, ...] = ()
        self._took_s = 0.0

    async def work(self) -> AttemptError | None:
        """Let the model or the tool do it, within the limit of time; servers end with it."""
        try:
            self._budget.require_run_budget()
            async with self._workshop.servers.of(self._attempt) as servers:
                began = time.monotonic()
                try:
                    async with asyncio.timeout(self._task.timeout_s):
                        return await self._do(servers)
                finally:
                    self._took_s = time.monotonic() - began
                    self._work.end()
        except TimeoutError:
            awaited = f"; it waited for {self._work.awaited}" if self._work.awaited else ""
            detail = f"not done within its timeout of {self._task.timeout_s:g} s{awaited}"
            error = AttemptError(kind=ErrorKind.TIMEOUT, detail=detail)
        except RunBudgetExhausted as reached:
            error = AttemptError(kind=ErrorKind.RUN_LIMIT, detail=str(reached))
        except ServerFailed as failure:
            error = AttemptError(kind=failure.kind, detail=failure.detail)
        except LlmError as failure:
            said = f"the model gave no answer: {self._task.model}: {failure.reason}"
            error = AttemptError(kind=ErrorKind.PROVIDER, detail=said)
        if self._task.type is TaskType.HARNESS:
            self._ending = ConversationEnding.ERROR
        return error

    async def judge(self, error: AttemptError | None) -> AttemptError | None:
        """Evaluate the answer, or the error where one is expected; returns the error that stays.

        One that ended the attempt is the expected one only if its text is named and found.
        """
        evaluator = self._task.evaluator
        if evaluator is None or (error is not None and not names_error(evaluator, error)):
            return error
        evidence = Evidence(
            response=self._work.answer() or "",
            error=error.detail if error else self._work.last_error(),
            tool_calls=self._work.all_calls(),
        )
        try:
            async with asyncio.timeout(self._task.timeout_s):
                found = await evaluate(evaluator, evidence, self._asking.ask)
        except (JudgeError, TimeoutError) as failure:
            late = f"the judge gave no answer within {self._task.timeout_s:g} s"
            return error or AttemptError(kind=ErrorKind.JUDGE, detail=str(failure) or late)
        if error is not None and any(each.passed is False for each in found):
            return error
        self._evaluations = found
        self._work.failure = error.detail if error else None
        return None

    def result(self, error: AttemptError | None) -> TaskResult:
        task, work = self._task, self._work
        response = work.answer()
        if _expects_error(task):
            response = work.last_error() or response
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
            ending=self._ending,
            response=response,
            evaluations=self._evaluations,
            llm_calls=tuple(work.llm_calls),
            tool_calls=tuple(work.all_calls()),
            messages=tuple(work.messages),
            duration_ms=1000 * self._took_s,
            cost_usd=self._budget.cost_usd if work.llm_calls else None,
            judge=self._asking.usage(),
        )

    async def _do(self, servers: list[McpServer]) -> AttemptError | None:
        if self._task.type is TaskType.DIRECT:
            return await self._call_tool(servers[0])
        choice = Choice(self._task.endpoint, self._task.model)
        try:
            llm = self._workshop.models.get(choice)
            talk = Conversation(self._task, llm, servers, self._work, self._budget)
            self._ending = await talk.run()
        except LlmError as failure:
            if failure.final:
                self._workshop.models.give_up(choice, failure)
            raise
        return None

    async def _call_tool(self, server: McpServer) -> AttemptError | None:
        assert self._task.tool is not None
        self._work.ask_tool(server.name, self._task.tool, self._task.arguments)
        called = await server.call(self._task.tool, self._task.arguments)
        self._work.add_call(called)
        if called.is_error and not _expects_error(self._task):
            said = f"{called.tool} of {called.server}: {called.text[:SHOWN]}"
            return AttemptError(kind=ErrorKind.TOOL, detail=said)
        return None


def _expects_error(task: PlannedTask) -> bool:
    return task.evaluator is not None and task.evaluator.expect_error
