"""Models and endings: what each provider answers, through its SDK, is the same result; `test_endings.py` shows it in both harnesses.

A dash in the table of docs/bashkit-eval-tests.md is an ending that the API does not have.
"""

import asyncio
from typing import Any, Final

import pytest

from mosaico.harness.bash.agent import AttemptLimits, attempt_task
from mosaico.harness.budget import Budget
from mosaico.harness.results import ConversationEnding
from mosaico.llm.conversation import Llm, Provider, TurnSettings
from mosaico.llm.providers import open_llm
from tests.support import documented_models as documented
from tests.support.bash_eval import task
from tests.support.model_server import ModelServer, RawReply, model_server

pytestmark = [
    pytest.mark.xdist_group("sdks of models"),
    pytest.mark.usefixtures("loaded_evaluators"),
]

JSON = dict[str, Any]
E = ConversationEnding
REFUSED: Final = "I cannot help with that."


def messages(stop_reason: str, *content: JSON, **fields: Any) -> RawReply:
    return documented.answer(documented.message_document(list(content), stop_reason, **fields))


def chat(finish_reason: str, **message: Any) -> RawReply:
    return documented.answer(documented.chat_document({"content": None, **message}, finish_reason))


def responses(*parts: JSON, **fields: Any) -> RawReply:
    items = [{**documented.COMMENTARY_ITEM, "content": list(parts)}] if parts else []
    return documented.answer(documented.response_document(items, **fields))


def incomplete(reason: str) -> RawReply:
    return responses(status="incomplete", incomplete_details={"reason": reason})


def failed(code: str) -> RawReply:
    return responses(status="failed", error={"code": code, "message": "not allowed"})


def output(text: str) -> JSON:
    return {"type": "output_text", "text": text, "annotations": []}


TOO_LONG: Final = documented.refuse("too long", code="context_length_exceeded")
CHAT: Final = {
    E.NATURAL: chat("stop", content="Done."),
    E.TRUNCATED: chat("length", content="I was ab"),
    E.REFUSAL: chat("stop", refusal=REFUSED),
    E.CONTENT_FILTER: chat("content_filter"),
    E.CONTEXT_LENGTH: TOO_LONG,
    E.TURN_LIMIT: chat("tool_calls", tool_calls=[documented.chat_call()]),
}
MESSAGES: Final = {
    E.NATURAL: messages("end_turn", {"type": "text", "text": "Done."}),
    E.TRUNCATED: messages("max_tokens", {"type": "text", "text": "I was ab"}),
    E.REFUSAL: messages("refusal", stop_details={"type": "refusal", "category": "cyber"}),
    E.CONTEXT_WINDOW: messages("model_context_window_exceeded", {"type": "text", "text": "I"}),
    E.CONTEXT_LENGTH: documented.refuse("prompt is too long: 9 tokens > 8 maximum"),
    E.TURN_LIMIT: messages(
        "tool_use", *documented.THINKING_BLOCKS,
        {"type": "tool_use", "id": "t", "name": "bash", "input": {"commands": "true"}},
    ),
}  # fmt: skip
RESPONSES: Final = {
    E.NATURAL: responses(output("Done.")),
    E.TRUNCATED: incomplete("max_output_tokens"),
    E.REFUSAL: responses({"type": "refusal", "refusal": REFUSED}),
    E.CONTENT_FILTER: incomplete("content_filter"),
    E.CONTEXT_LENGTH: TOO_LONG,
    E.TURN_LIMIT: documented.answer(
        documented.response_document([documented.REASONING_ITEM, documented.CALL_ITEM])
    ),
}
MODERATED: Final = documented.refuse("flagged", status=403, metadata={"reasons": ["violence"]})
LISTED: Final = RawReply(
    status=400, body=b'[{"error": {"code": 400, "message": "input token count (9) exceeds the"}}]'
)

MODELS: Final[dict[str, tuple[Provider, dict[ConversationEnding, RawReply]]]] = {
    "claude-opus-5": (Provider.ANTHROPIC, MESSAGES),
    "claude-haiku-4-5": (Provider.ANTHROPIC, MESSAGES),
    "gpt-5.6-terra": (Provider.OPENAI, RESPONSES),
    "gpt-5.3-codex": (
        Provider.OPENAI_RESPONSES,
        {**RESPONSES, E.CONTENT_FILTER: failed("bio_policy")},
    ),
    "gpt-5.2": (Provider.OPENAI, CHAT),
    "gemini-3-pro": (Provider.OPENAI, {**CHAT, E.CONTEXT_LENGTH: LISTED}),
    "deepseek-v4": (Provider.OPENAI, CHAT),
    "google/gemini-4-pro": (Provider.OPENAI, {**CHAT, E.CONTENT_FILTER: MODERATED}),
}
MATRIX: Final = [
    pytest.param(model, ending, id=f"{model}-{ending}")
    for model, (_, replies) in MODELS.items()
    for ending in replies
]


def open_at(server: ModelServer, model: str) -> Llm:
    provider = MODELS[model][0]
    url = server.url if provider is Provider.ANTHROPIC else server.openai_url
    return open_llm(provider, model, base_url=url, settings=TurnSettings(), environment={})


def ending_at(server: ModelServer, model: str) -> tuple[str | None, str | None]:
    async def run() -> tuple[str | None, str | None]:
        llm = open_at(server, model)
        attempt = await attempt_task(task(), llm, AttemptLimits(max_turns=2), Budget())
        await llm.close()
        failure = attempt.failure.reason if attempt.failure is not None else None
        return attempt.trace.ending, failure

    return asyncio.run(run())


@pytest.mark.parametrize(("model", "ending"), MATRIX)
def test_model_ending__is_the_same_result_for_every_provider(
    model: str, ending: ConversationEnding
) -> None:
    reply = MODELS[model][1][ending]
    with model_server(lambda _: reply) as server:
        assert ending_at(server, model) == (ending, None)
    assert len(server.requests) == (2 if ending is E.TURN_LIMIT else 1)


@pytest.mark.parametrize("model", MODELS)
def test_spend_limit__is_an_error_that_is_not_retried(model: str) -> None:
    """A wait does not refill an account: one request, and an error that names the limit."""
    reply = documented.refuse("limit reached", status=429, code="project_spend_limit_exceeded")
    with model_server(lambda _: reply) as server:
        ending, error = ending_at(server, model)
    assert (ending, len(server.requests)) == (E.ERROR, 1)
    assert "project_spend_limit_exceeded" in str(error)
