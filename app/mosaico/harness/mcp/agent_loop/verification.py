"""Verifies the end state of a task: calls tools after the conversation and evaluates their results.

An agent may only say that it did something; the file or the row shows whether it did.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from mosaico.harness.judge import JudgeError
from mosaico.harness.mcp.agent_loop.toolbox import Toolbox, ToolRoute
from mosaico.harness.mcp.evaluator_registry import (
    MAX_QUOTED_CHARS,
    AskModel,
    EvaluatorEvidence,
    evaluate,
)
from mosaico.harness.mcp.plan import PlannedTask, PlannedVerification
from mosaico.harness.mcp.servers.server import McpServer
from mosaico.harness.mcp.types import Evaluation, McpToolCall


class VerifiedCall(NamedTuple):
    """A verification and the result of its call."""

    verification: PlannedVerification
    call: McpToolCall


async def call_verifications(task: PlannedTask, servers: Sequence[McpServer]) -> list[VerifiedCall]:
    """The results of the calls, one after the other, each within the timeout of the task.

    Raises ServerError when a server is lost, and JudgeError when no server has the tool or the tool
    does not answer: neither says anything about the agent.
    """
    return [
        VerifiedCall(verification, await _call(verification, servers, task.timeout_s))
        for verification in task.verifications
    ]


async def _call(
    verification: PlannedVerification, servers: Sequence[McpServer], timeout_s: float
) -> McpToolCall:
    route = _route(verification, servers)
    try:
        async with asyncio.timeout(timeout_s):
            return await route.server.call(route.tool, verification.arguments)
    except TimeoutError:
        raise JudgeError(
            f"{verification.label}: {route.server.name} did not answer within {timeout_s:g} s"
        ) from None


def _route(verification: PlannedVerification, servers: Sequence[McpServer]) -> ToolRoute:
    toolbox = Toolbox([server for server in servers if verification.server in (None, server.name)])
    route = toolbox.find_for_direct_call(verification.tool)
    if route is None:
        reason = toolbox.describe_unknown(verification.tool)
        raise JudgeError(f"{verification.label}: {reason}")
    return route


async def evaluate_verifications(
    verified_calls: Sequence[VerifiedCall], ask: AskModel
) -> tuple[Evaluation, ...]:
    """The evaluations of all results. Raises JudgeError."""
    evaluations: list[Evaluation] = []
    for verified_call in verified_calls:
        evaluations += await _evaluate(verified_call, ask)
    return tuple(evaluations)


async def _evaluate(verified_call: VerifiedCall, ask: AskModel) -> tuple[Evaluation, ...]:
    verification, call = verified_call
    evaluator = verification.evaluator
    error = call.text if call.is_error else None
    if evaluator is None or (error is not None and not evaluator.expect_error):
        return (
            Evaluation(
                type=verification.label,
                passed=error is None,
                reason="the call succeeded"
                if error is None
                else f"the call failed: {error[:MAX_QUOTED_CHARS]}",
                actual=call.text[:MAX_QUOTED_CHARS],
            ),
        )
    evidence = EvaluatorEvidence(response=call.text, error=error, tool_calls=[call])
    return tuple(
        replace(evaluation, type=f"{verification.label}: {evaluation.type}")
        for evaluation in await evaluate(evaluator, evidence, ask)
    )
