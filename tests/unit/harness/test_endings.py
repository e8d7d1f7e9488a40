"""Every ending of a conversation is a scored result with its name, in both harnesses."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import httpx2
import pytest

from mosaico.harness.bash.agent import AgentAttempt, AttemptLimits, attempt_task
from mosaico.harness.bash.report_view import attempt_view as bash_view
from mosaico.harness.budget import Budget
from mosaico.harness.mcp.config import EvaluatorConfig
from mosaico.harness.mcp.report_view import attempt_view as mcp_view
from mosaico.harness.mcp.report_view import run_view as mcp_run_view
from mosaico.harness.reports.text import terminal_report
from mosaico.harness.results import AttemptOutcome, ConversationEnding
from mosaico.llm.conversation import StopReason, Turn
from mosaico.llm.errors import LlmError, LlmErrorKind
from mosaico.llm.sdk import error_of_response
from tests.support.bash_eval import task
from tests.support.bash_turns import ScriptedTurns, run_all, turn
from tests.support.mcp_bench import Ran, ScriptedModel, harness_task, run
from tests.support.references import Reference

pytestmark = pytest.mark.usefixtures("loaded_checks", "loaded_evaluators")
IN_ONE_PROCESS: Final = pytest.mark.xdist_group("sdks of models")
anthropic_messages = Reference("mosaico.llm.anthropic_messages")
openai_chat = Reference("mosaico.llm.openai_chat")
openai_responses = Reference("mosaico.llm.openai_responses")

Reply: TypeAlias = Callable[[], Turn | LlmError]
REFUSED: Final = "I cannot help with that."


def chat(finish_reason: str, **message: Any) -> Turn:
    choice = {"finish_reason": finish_reason, "message": {"content": None, **message}}
    ended: Turn = openai_chat.read_completion({"choices": [choice]})
    return ended


def responses(*parts: dict[str, Any], status: str = "completed", reason: str | None = None) -> Turn:
    output = [{"type": "message", "content": list(parts)}] if parts else []
    ended: Turn = openai_responses.read_turn_items(
        {"status": status, "incomplete_details": {"reason": reason}, "output": output}
    )
    return ended


def messages(stop_reason: str, *content: dict[str, Any], **fields: Any) -> Turn:
    ended: Turn = anthropic_messages.read_message(
        {"stop_reason": stop_reason, "content": list(content), **fields}
    )
    return ended


def status_error(status: int, **error: Any) -> LlmError:
    request = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")
    content = json.dumps({"error": error})
    return error_of_response(httpx2.Response(status, content=content, request=request))


# Sources: the types of the SDKs of OpenAI and Anthropic, and the errors that both APIs document.
ENDINGS: Final[list[tuple[Reply, ConversationEnding, str]]] = [
    (lambda: chat("stop", refusal=REFUSED), ConversationEnding.REFUSAL, REFUSED),
    (lambda: chat("content_filter"), ConversationEnding.CONTENT_FILTER, ""),
    (lambda: chat("length", content="I was ab"), ConversationEnding.TRUNCATED, ""),
    (
        lambda: responses({"type": "refusal", "refusal": REFUSED}),
        ConversationEnding.REFUSAL,
        REFUSED,
    ),
    (
        lambda: responses(status="incomplete", reason="content_filter"),
        ConversationEnding.CONTENT_FILTER,
        "",
    ),
    (
        lambda: responses(status="incomplete", reason="max_output_tokens"),
        ConversationEnding.TRUNCATED,
        "",
    ),
    (
        lambda: messages("refusal", stop_details={"category": "cyber", "explanation": REFUSED}),
        ConversationEnding.REFUSAL,
        f"cyber: {REFUSED}",
    ),
    (lambda: messages("refusal"), ConversationEnding.REFUSAL, ""),
    (
        lambda: messages("model_context_window_exceeded", {"type": "text", "text": "I was ab"}),
        ConversationEnding.CONTEXT_WINDOW,
        "",
    ),
    (lambda: messages("max_tokens"), ConversationEnding.TRUNCATED, ""),
    (
        lambda: status_error(400, code="context_length_exceeded", message="at most 128000 tokens"),
        ConversationEnding.CONTEXT_LENGTH,
        "at most 128000 tokens",
    ),
    (
        lambda: status_error(
            400, type="invalid_request_error", message="prompt is too long: 9 > 8"
        ),
        ConversationEnding.CONTEXT_LENGTH,
        "prompt is too long",
    ),
    (
        lambda: status_error(413, type="request_too_large", message="Request exceeds 32 MB"),
        ConversationEnding.CONTEXT_LENGTH,
        "32 MB",
    ),
    (
        lambda: status_error(400, code="content_filter", message="filtered by policy"),
        ConversationEnding.CONTENT_FILTER,
        "filtered by policy",
    ),
    (
        lambda: status_error(
            403, code=403, message="it requires moderation and your input was flagged"
        ),
        ConversationEnding.CONTENT_FILTER,
        "was flagged",
    ),
]
all_endings = pytest.mark.parametrize(("reply", "ending", "text"), ENDINGS)


def attempt(*turns: Turn | LlmError, max_turns: int = 10) -> AgentAttempt:
    limits = AttemptLimits(max_turns=max_turns)
    return asyncio.run(attempt_task(task(), ScriptedTurns(turns), limits, Budget()))


@IN_ONE_PROCESS
@all_endings
def test_bash_ending__is_scored_and_shown(
    reply: Reply, ending: ConversationEnding, text: str
) -> None:
    [result] = run_all(ScriptedTurns([turn("echo y"), reply()]), task("stdout_contains:x"))
    assert (result.outcome, result.passed()) == (AttemptOutcome.SCORED, False)
    assert result.trace is not None
    assert (result.trace.ending, result.trace.natural_stop) == (ending, False)
    facts = bash_view(result).facts
    assert text in facts
    assert ending in facts or ending is ConversationEnding.TRUNCATED


@IN_ONE_PROCESS
@all_endings
def test_mcp_ending__is_evaluated_and_shown(
    reply: Reply, ending: ConversationEnding, text: str
) -> None:
    ran = mcp_run(reply())
    result = ran.result
    assert (result.outcome, result.passed) == (AttemptOutcome.SCORED, False)
    assert (result.ending, result.natural_stop) == (ending, False)
    report = terminal_report(mcp_run_view(ran.report))
    for shown in (mcp_view(result).facts, report):
        assert text in shown
        assert ending in shown or ending is ConversationEnding.TRUNCATED


def mcp_run(reply: Turn | LlmError) -> Ran:
    def answer(_: object) -> Turn:
        if isinstance(reply, LlmError):
            raise reply
        return reply

    judged = harness_task(evaluator=EvaluatorConfig(expected="Lima"))
    return run(judged, model=ScriptedModel(answer))


@pytest.mark.parametrize(
    "stop", [StopReason.REFUSAL, StopReason.CONTENT_FILTER, StopReason.CONTEXT_WINDOW]
)
def test_bash_ending__tool_call_of_an_ended_turn_is_not_run(stop: StopReason) -> None:
    ended = attempt(turn("echo x > /tmp/x", stop=stop))
    assert [call.ran for call in ended.trace.tool_calls] == [False]
    assert ended.trace.ending == ConversationEnding(stop.value)


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (403, "the key may not use this model", LlmErrorKind.AUTH),
        (400, "unknown parameter", LlmErrorKind.REJECTED),
        (500, "prompt is too long", LlmErrorKind.SERVER),
    ],
)
def test_other_error__stays_an_error(status: int, message: str, kind: LlmErrorKind) -> None:
    assert status_error(status, message=message).kind is kind
    assert attempt(status_error(status, message=message)).failure is not None
