"""The agent loop through the real SDKs, against a local server that replays recordings."""

import asyncio
from collections.abc import Callable

import pytest

from mosaico.harness.bash.agent import AgentAttempt, AttemptLimits, attempt_task
from mosaico.harness.bash.attempt_runner import RunLimits, Runner, plan_trials
from mosaico.harness.bash.check_registry import load_checks
from mosaico.harness.bash.replay import is_unstable, replay
from mosaico.harness.bash.types import EvalResult, EvalTask
from mosaico.harness.budget import Budget
from mosaico.harness.results import ConversationEnding
from mosaico.llm.conversation import (
    ChatMessage,
    Llm,
    MessageRole,
    Provider,
    StopReason,
    TextBlock,
    ToolUseBlock,
    TurnSettings,
    Usage,
)
from mosaico.llm.providers import open_llm
from tests.support.bash_eval import GPT, HAIKU, OPUS, SONNET, recorded_report, task
from tests.support.model_server import (
    ModelServer,
    RawReply,
    ReceivedRequest,
    ScriptedReply,
    model_server,
    recorded_plan,
)

KEYS = {"ANTHROPIC_API_KEY": "key-of-anthropic", "OPENAI_API_KEY": "key-of-openai"}
PROVIDERS = [Provider.ANTHROPIC, Provider.OPENAI, Provider.OPENAI_RESPONSES]
# The wait that the server asks for, so that no retry takes seconds.
NOW = {"Retry-After": "0.001"}

# The SDKs take seconds to import: one worker imports them for all these tests.
pytestmark = pytest.mark.xdist_group("sdks of models")


@pytest.fixture(autouse=True, scope="module")
def _loaded_checks() -> None:
    load_checks()


def model_at(server: ModelServer, provider: Provider, model: str = "m") -> Llm:
    url = server.url if provider is Provider.ANTHROPIC else server.openai_url
    settings = TurnSettings()
    return open_llm(provider, model, base_url=url, settings=settings, environment=KEYS)


def attempt(
    server: ModelServer, provider: Provider, eval_task: EvalTask | None = None
) -> AgentAttempt:
    async def run() -> AgentAttempt:
        llm = model_at(server, provider)
        try:
            return await attempt_task(eval_task or task(), llm, AttemptLimits(), Budget())
        finally:
            await llm.close()

    return asyncio.run(run())


def reply(
    *commands: str,
    text: str = "",
    stop: StopReason | None = None,
    usage: Usage | None = None,
    arguments: str | None = None,
) -> ScriptedReply:
    blocks: list[TextBlock | ToolUseBlock] = [TextBlock(text=text)] if text else []
    blocks += [
        ToolUseBlock(id=f"call_{n}", name="bash", input={"commands": command})
        for n, command in enumerate(commands)
    ]
    return ScriptedReply(
        message=ChatMessage(role=MessageRole.ASSISTANT, content=tuple(blocks)),
        stop=stop or (StopReason.TOOL_USE if commands else StopReason.END),
        usage=usage,
        arguments=arguments,
    )


def reply_in_order(
    *answers: ScriptedReply | RawReply,
) -> Callable[[ReceivedRequest], ScriptedReply | RawReply]:
    """Each request gets the next reply; the last reply repeats."""
    remaining_replies = list(answers)
    return lambda _: (
        remaining_replies.pop(0) if len(remaining_replies) > 1 else remaining_replies[0]
    )


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        *((SONNET, provider) for provider in PROVIDERS),
        (HAIKU, Provider.ANTHROPIC),
        pytest.param(GPT, Provider.OPENAI, marks=pytest.mark.prove),
        pytest.param(OPUS, Provider.OPENAI_RESPONSES, marks=pytest.mark.prove),
    ],
)
def test_live_run__recorded_run_gives_recorded_results(name: str, provider: Provider) -> None:
    """Turns, tokens and stops equal the recording; check outcomes equal a replay of its commands."""
    before = recorded_report(name)
    expected = replay(before).report
    results: list[EvalResult] = []

    async def run(server: ModelServer) -> None:
        llm = model_at(server, provider)
        runner = Runner(lambda _: llm, RunLimits(), Budget(), on_result=results.append)
        await runner.run(plan_trials([attempt_result.task for attempt_result in before.results], 1))
        await llm.close()

    traces = {
        attempt_result.task.prompt: attempt_result.trace
        for attempt_result in before.results
        if attempt_result.trace
    }
    with model_server(recorded_plan(traces)) as server:
        asyncio.run(run(server))
    by_id = {entry.task.id: entry for entry in results}
    for old, now in zip(before.results, expected.results, strict=True):
        new = by_id[old.task.id]
        assert old.trace
        assert new.trace
        assert new.score
        assert now.score
        assert new.trace.turns == old.trace.turns
        assert new.trace.natural_stop == old.trace.natural_stop
        assert new.trace.total_input_tokens == old.trace.total_input_tokens
        assert new.trace.total_output_tokens == old.trace.total_output_tokens
        assert len(new.trace.messages) == len(old.trace.messages)
        assert [tool_call.commands for tool_call in new.trace.tool_calls] == [
            tool_call.commands for tool_call in old.trace.tool_calls
        ]
        for was, is_now in zip(now.score.results, new.score.results, strict=True):
            # A listing may contain a time that has changed since.
            assert is_unstable(was.check) or was.passed == is_now.passed


@pytest.mark.parametrize("provider", PROVIDERS)
def test_live_run__sends_conversation_back(provider: Provider) -> None:
    answers = (
        reply(
            "echo one",
            "echo two; exit 3",
            text="Look:",
            usage=Usage(input_tokens=5, output_tokens=2),
        ),
        reply(text="Done.", usage=Usage(input_tokens=7, output_tokens=1)),
    )
    with model_server(reply_in_order(*answers)) as server:
        trace, _, failure = attempt(server, provider, task(system="Be brief."))
    assert failure is None
    assert (trace.turns, trace.tool_call_count, trace.ending) == (2, 2, ConversationEnding.NATURAL)
    assert (trace.total_input_tokens, trace.total_output_tokens) == (12, 3)
    roles = [message.role for message in trace.messages]
    assert roles == [
        MessageRole.USER,
        MessageRole.ASSISTANT,
        MessageRole.TOOL_RESULT,
        MessageRole.ASSISTANT,
    ]
    assert [getattr(block, "content", None) for block in trace.messages[2].content] == [
        "one\n",
        "two\n\nExit code: 3",
    ]
    first, second = server.requests
    assert "Be brief." in str(first.body)
    assert second.turn == 1
    assert "Exit code: 3" in str(second.body)
    headers = {name.lower(): value for name, value in first.headers.items()}
    key = "key-of-anthropic" if provider is Provider.ANTHROPIC else "key-of-openai"
    assert key in headers["authorization"] + headers.get("x-api-key", "")
    if provider is Provider.OPENAI_RESPONSES:
        # By default the Responses API keeps the conversation at the provider.
        assert first.body["store"] is False


@pytest.mark.parametrize("provider", PROVIDERS)
def test_live_run__runs_tool_calls_despite_stop_reason(provider: Provider) -> None:
    answers = (reply("echo kept > /k", stop=StopReason.END), reply(text="Done."))
    with model_server(reply_in_order(*answers)) as server:
        trace, sandbox, _ = attempt(server, provider)
    assert trace.turns == 2
    assert sandbox.read("/k") == b"kept\n"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "arguments", ['{"commands": "echo', "[1]", '"echo x"', '{"commands": "echo", "n": NaN}']
)
def test_live_run__malformed_arguments_are_reported_to_model(
    provider: Provider, arguments: str
) -> None:
    answers = (reply("x", arguments=arguments), reply("echo better"), reply(text="Done."))
    with model_server(reply_in_order(*answers)) as server:
        trace, _, _ = attempt(server, provider)
    assert [(call.commands, call.ran) for call in trace.tool_calls] == [
        ("", False),
        ("echo better", True),
    ]
    assert trace.calls_ok() == 1
    [flaw] = trace.messages[2].content
    assert "arguments" in getattr(flaw, "content", "")
    assert getattr(flaw, "is_error", False)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_live_run__missing_usage_is_unknown(provider: Provider) -> None:
    with model_server(reply_in_order(reply(text="Done."))) as server:
        trace, _, failure = attempt(server, provider)
    assert failure is None
    assert (trace.total_input_tokens, trace.total_output_tokens) == (None, None)


@pytest.mark.parametrize("provider", PROVIDERS)
# 529 is how Anthropic says that it is overloaded.
@pytest.mark.parametrize("status", [429, 529])
def test_live_run__busy_server_is_retried(provider: Provider, status: int) -> None:
    busy = RawReply(status=status, body=b'{"error": {"message": "busy"}}', headers=NOW)
    with model_server(reply_in_order(busy, busy, reply(text="Done."))) as server:
        trace, _, failure = attempt(server, provider)
    assert failure is None
    assert trace.turns == 1
    assert len(server.requests) == 3


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, b'{"error": {"message": "wrong key"}}'),
        # Both mean that the account has no money: no wait helps.
        (429, b'{"error": {"message": "pay", "code": "insufficient_quota"}}'),
        (400, b'{"error": {"message": "Your credit balance is too low"}}'),
    ],
)
def test_live_run__permanent_error_is_not_retried(
    provider: Provider, status: int, body: bytes
) -> None:
    with model_server(reply_in_order(RawReply(status=status, body=body, headers=NOW))) as server:
        trace, _, failure = attempt(server, provider)
    assert len(server.requests) == 1
    assert failure is not None
    assert failure.final
    assert failure.reason.startswith(f"{status}: ")
    assert (trace.ending, trace.turns) == (ConversationEnding.ERROR, 0)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_live_run__redirect_is_not_followed(provider: Provider) -> None:
    with model_server(reply_in_order(reply(text="Redirected."))) as redirect_target:
        away = RawReply(status=307, headers={"Location": f"{redirect_target.url}/v1/messages"})
        with model_server(reply_in_order(away)) as server:
            _, _, failure = attempt(server, provider)
    assert failure is not None
    assert redirect_target.requests == []


@pytest.mark.parametrize(
    "body",
    [b"<html>gateway</html>", b"null", b'{"content": 3}'],
)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_live_run__invalid_response_is_infra_error(provider: Provider, body: bytes) -> None:
    answer = RawReply(status=200, body=body, content_type="application/json")
    with model_server(reply_in_order(answer)) as server:
        _, _, failure = attempt(server, provider)
    assert failure is not None
    assert not failure.final
