"""Conversations of models with tools: requests, limits, errors, endings."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from app.harness.budget import BudgetLimits
from app.harness.mcp.config import EvaluatorConfig
from app.harness.mcp.evaluator_registry import load_evaluators
from app.harness.mcp.plan import McpRunPlan
from app.harness.mcp.run import run_plan
from app.harness.mcp.transcript import attempt_transcript
from app.harness.mcp.types import (
    AttemptBegan,
    AttemptEnded,
    Content,
    ContentKind,
    ErrorKind,
    ServerSeen,
    TaskResult,
    Traced,
)
from app.harness.results import AttemptOutcome, ConversationEnding
from app.harness.transcript import TranscriptMessage
from app.llm.conversation import (
    ChatMessage,
    MessageRole,
    StopReason,
    ToolResultBlock,
    Turn,
)
from app.llm.errors import LlmError, LlmErrorKind
from app.llm.prices import Price
from tests.support.mcp_bench import (
    Request,
    ScriptedModel,
    calls,
    direct_task,
    harness_task,
    run,
    says,
    scripted,
)
from tests.support.mcp_servers import faults, stdio


@pytest.fixture(autouse=True, scope="module")
def _evaluators() -> None:
    load_evaluators()


def results_of(message: ChatMessage) -> list[ToolResultBlock]:
    return [block for block in message.content if isinstance(block, ToolResultBlock)]


def failing(failure: LlmError, *, after: int = 0) -> ScriptedModel:
    def play(request: Request) -> Turn:
        if len(request.messages) > after:
            raise failure
        return calls(("echo", {"text": "x"}))

    return ScriptedModel(play)


def test_conversation__model_uses_a_tool_and_answers() -> None:
    model = scripted(calls(("echo", {"text": "hello"}), tokens=(100, 5)), says("It says hello."))
    result = run(harness_task(faults()), model=model).result
    assert (result.outcome, result.ending) == (AttemptOutcome.SCORED, ConversationEnding.NATURAL)
    assert result.response == "It says hello."
    assert [(call.server, call.tool, call.text) for call in result.tool_calls] == [
        ("faults", "echo", "hello")
    ]
    roles = [message.role for message in result.messages]
    assert roles == [
        MessageRole.USER,
        MessageRole.ASSISTANT,
        MessageRole.TOOL_RESULT,
        MessageRole.ASSISTANT,
    ]
    assert result.natural_stop


def test_conversation__without_servers_has_no_tools_and_no_system_message() -> None:
    model = scripted(says("42"))
    result = run(harness_task(), model=model).result
    [request] = model.requests
    assert (request.tools, request.system) == ((), "")
    assert (result.outcome, result.response) == (AttemptOutcome.SCORED, "42")


def test_conversation__single_server_keeps_tool_names() -> None:
    model = scripted(says("Done."))
    result = run(harness_task(faults(), system_prompt="Be brief."), model=model).result
    [request] = model.requests
    transcript = attempt_transcript(result)
    assert transcript is not None
    assert transcript.steps[0] == TranscriptMessage(role="system", text=request.system)
    assert (request.tools[0].name, request.tools[0].description) == ("echo", "Does echo.")
    assert request.system == (
        "Be brief.\n\nInstructions of faults:\nExpect the worst.\n\nYou have 16 tools of 1 server."
    )


def test_conversation__several_servers_prefix_tool_names() -> None:
    model = scripted(calls(("b__echo", {"text": "x"})), says("Done."))
    result = run(harness_task(faults(name="a"), faults("toolless", name="b")), model=model).result
    first = model.requests[0]
    assert first.tools[0].name == "a__echo"
    assert first.tools[0].description == "[a] Does echo."
    assert "You have 16 tools of 2 servers." in first.system
    # A server without tools leaves the names of the others as they are, and has none itself.
    [refused] = result.tool_calls
    assert refused.is_error
    assert refused.text.startswith("unknown tool 'b__echo'; available tools: a__echo, ")


def test_conversation__sends_prompts_in_order_and_keeps_last_answer() -> None:
    model = scripted(says("one"), calls(("count", {})), says("two"))
    task = harness_task(faults(), prompts=("First.", "Second."))
    result = run(task, model=model).result
    assert [message.text() for message in result.messages if message.role is MessageRole.USER] == [
        "First.",
        "Second.",
    ]
    assert result.response == "two"
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]
    assert len(result.llm_calls) == 3


class Thoughtful(ScriptedModel):
    """Delays each answer."""

    async def turn(self, *arguments: Any) -> Turn:
        await asyncio.sleep(0.05)
        return await super().turn(*arguments)


def test_conversation__latency_is_that_of_the_model() -> None:
    model = scripted(calls(("echo", {"text": "x"})), says("Done."))
    result = run(harness_task(faults()), model=Thoughtful(model.play)).result
    first, second = [call.latency_ms for call in result.llm_calls]
    assert min(first, second) > 45  # clocks round
    assert first + second <= result.duration_ms


def test_conversation__usage_is_counted_per_request() -> None:
    """Inputs 100, 160, 260: base 100, growth (60 + 100) / 2 = 80; 520 · 1 $ + 60 · 2 $ a million."""
    count: tuple[str, dict[str, Any]] = ("count", {})
    model = scripted(
        calls(count, tokens=(100, 10)), calls(count, count, tokens=(160, 20)), says("3", (260, 30))
    )
    result = run(
        harness_task(faults()), model=model, prices={"m": Price(input_usd=1.0, output_usd=2.0)}
    ).result
    assert [call.cumulative_input for call in result.llm_calls] == [100, 260, 520]
    assert [call.tool_calls_made for call in result.llm_calls] == [1, 2, 0]
    assert [call.text for call in result.tool_calls] == ["1", "2", "3"]
    assert (result.base_context, result.context_growth_avg) == (100, 80)
    assert (result.input_tokens, result.output_tokens) == (520, 60)
    assert result.cost_usd == pytest.approx(640e-6)


def test_conversation__cost_without_price_is_unknown() -> None:
    assert run(harness_task(), model=scripted(says("x", (1, 1)))).result.cost_usd is None


def test_conversation__invalid_arguments_are_reported_to_the_model() -> None:
    flawed = calls(("echo", {}))
    block = flawed.message.tool_uses()[0]
    message = ChatMessage(
        role=MessageRole.ASSISTANT,
        content=(
            type(block)(id="c", name="echo", input={}, flaw="the arguments are not valid JSON"),
        ),
    )
    model = scripted(Turn(message=message, stop=StopReason.TOOL_USE, usage=None), says("Sorry."))
    result = run(harness_task(faults()), model=model).result
    [tool_result] = results_of(result.messages[2])
    assert (tool_result.content, tool_result.is_error) == ("the arguments are not valid JSON", True)
    assert result.outcome is AttemptOutcome.SCORED


@pytest.mark.parametrize(
    ("limits", "ending", "turns"),
    [
        ({"max_turns": 3}, ConversationEnding.TURN_LIMIT, 3),
        (
            {"budget_limits": BudgetLimits(tokens=250)},
            ConversationEnding.TOKEN_LIMIT,
            3,
        ),  # 110, 220, 330
        (
            {"budget_limits": BudgetLimits(cost_usd=0.00015)},
            ConversationEnding.COST_LIMIT,
            2,
        ),  # 0.00012 a turn
    ],
)
def test_conversation__limits_end_it(
    limits: Mapping[str, Any], ending: ConversationEnding, turns: int
) -> None:
    endless = scripted(calls(("count", {}), text="Once more.", tokens=(100, 10)))
    prices = {"m": Price(input_usd=1.0, output_usd=2.0)}
    result = run(harness_task(faults(), **limits), model=endless, prices=prices).result
    assert (result.ending, result.natural_stop) == (ending, False)
    assert len(result.llm_calls) == turns
    assert (result.outcome, result.response) == (AttemptOutcome.SCORED, "Once more.")


def test_conversation__truncated_answer_ends_it() -> None:
    cut = Turn(message=says("I was ab").message, stop=StopReason.TRUNCATED, usage=None)
    result = run(harness_task(prompts=("a", "b")), model=scripted(cut)).result
    assert (result.ending, result.response) == (ConversationEnding.TRUNCATED, "I was ab")
    assert len(result.llm_calls) == 1


def test_conversation__provider_error_keeps_earlier_steps() -> None:
    model = failing(LlmError("500: busy"), after=1)
    result = run(harness_task(faults()), model=model).result
    assert (result.outcome, result.ending) == (AttemptOutcome.INFRA_ERROR, ConversationEnding.ERROR)
    assert result.error is not None
    assert result.error.kind is ErrorKind.PROVIDER
    assert result.error.detail == "the model did not answer: m: 500: busy"
    assert len(result.tool_calls) == 1


def test_model_pool__finally_failed_model_gets_no_more_requests() -> None:
    model = failing(LlmError("401: wrong key", kind=LlmErrorKind.AUTH))
    tasks = [harness_task(name=name) for name in ("a", "b", "c")]
    report = run(*tasks, model=model, concurrency=1).report
    assert len(model.requests) == 1
    assert {result.outcome for result in report.results} == {AttemptOutcome.INFRA_ERROR}
    first_error, *other_errors = [result.error.detail for result in report.results if result.error]
    assert first_error == "the model did not answer: m: 401: wrong key"
    assert set(other_errors) == {"not asked: the model was given up after a: 401: wrong key"}


def test_conversation__server_death_ends_the_task() -> None:
    model = scripted(calls(("echo", {"text": "x"})), calls(("die", {})), says("Fine!"))
    result = run(harness_task(faults()), model=model).result
    assert result.outcome is AttemptOutcome.INFRA_ERROR
    assert result.error is not None
    assert result.error.kind is ErrorKind.SERVER_DIED
    assert len(model.requests) == 2
    assert [(call.tool, call.is_error) for call in result.tool_calls] == [
        ("echo", False),
        ("die", True),
    ]


def test_conversation__calls_of_one_turn_run_at_the_same_time(tmp_path: Path) -> None:
    """Each call waits for the other; recorded are they in the order of the model."""
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    uses = [
        ("y__meet", {"mine": a, "other": b}),
        ("x__nobody", {}),
        ("x__meet", {"mine": b, "other": a}),
    ]
    model = scripted(calls(*uses), says("Met."))
    result = run(harness_task(faults(name="x"), faults(name="y")), model=model).result
    assert result.response == "Met."
    recorded = [(call.server, call.tool, call.is_error) for call in result.tool_calls]
    assert recorded == [("y", "meet", False), ("", "x__nobody", True), ("x", "meet", False)]
    assert [block.tool_use_id for block in results_of(result.messages[2])] == [
        "call_0", "call_1", "call_2",
    ]  # fmt: skip


def test_conversation__all_unanswered_calls_of_a_turn_are_named(tmp_path: Path) -> None:
    uses = [("y__hang", {}), ("x__echo", {"text": "x"}), ("x__hang", {})]
    task = harness_task(faults(name="x"), faults(name="y"), timeout_s=0.5)
    result = run(task, model=scripted(calls(*uses), says("Never."))).result
    assert result.error is not None
    assert result.error.detail.endswith("; it was waiting for hang of y and hang of x")
    assert [call.text for call in result.tool_calls] == ["(no answer)", "x", "(no answer)"]


@pytest.mark.parametrize(
    ("tool", "servers", "expected_server"),
    [
        ("a__echo", ("", ""), "a"),
        ("b/echo", ("", ""), "b"),
        ("echo", ("toolless", ""), "b"),
        ("echo", ("", ""), None),
        ("nobody", ("", ""), None),
    ],
)
def test_direct_task__names_a_tool_of_several_servers(
    tool: str, servers: tuple[str, str], expected_server: str | None
) -> None:
    a, b = (faults(habit, name=name) for habit, name in zip(servers, "ab", strict=True))
    result = run(direct_task(a, tool, servers=(a, b), arguments={"text": "hi"})).result
    [call] = result.tool_calls
    if expected_server is not None:
        assert (result.outcome, call.server, call.text) == (
            AttemptOutcome.SCORED,
            expected_server,
            "hi",
        )
    else:
        assert result.outcome is AttemptOutcome.AGENT_ERROR
        assert result.error is not None
        assert f"unknown tool {tool!r}; available tools: a__echo" in result.error.detail


class Asleep(ScriptedModel):
    """Never answers; records whether its request was cancelled."""

    is_cancelled = False

    async def turn(self, *_: object) -> Turn:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        raise AssertionError


def test_timeout__cancels_request_and_sends_no_more() -> None:
    model = Asleep(lambda _: says(""))
    result = run(harness_task(timeout_s=0.05), model=model).result
    assert (result.outcome, result.ending) == (AttemptOutcome.INFRA_ERROR, ConversationEnding.ERROR)
    assert result.error is not None
    assert result.error.detail.startswith(
        "the model did not answer: m: timed out after 0.05 s: no response to request 1 for 0."
    )
    assert model.is_cancelled


def test_timeout__provider_is_never_the_expected_error() -> None:
    """Errors of tools are expected here; an outage is none of them."""
    task = harness_task(timeout_s=0.05, evaluator=EvaluatorConfig(expect_error=True))
    result = run(task, model=Asleep(lambda _: says(""))).result
    assert (result.outcome, result.passed) == (AttemptOutcome.INFRA_ERROR, None)


def test_timeout__hanging_tool_of_a_model_is_that_of_the_agent() -> None:
    task = harness_task(faults(), timeout_s=0.3)
    result = run(task, model=scripted(calls(("hang", {})), says("Never."))).result
    assert (result.outcome, result.passed) == (AttemptOutcome.TIMEOUT, False)
    assert result.error is not None
    assert result.error.detail.endswith("; it was waiting for hang of faults")


def test_conversation__long_tool_result_is_truncated_for_the_model_only() -> None:
    model = scripted(calls(("huge", {"bytes": 500_000})), says("Long."))
    result = run(harness_task(faults()), model=model).result
    [tool_result] = results_of(result.messages[2])
    assert tool_result.content.endswith("\n[100000 more characters omitted]")
    assert result.tool_calls[0].content[0] == Content(kind=ContentKind.TEXT, size=500_000)


@pytest.mark.parametrize(("expected", "passed"), [("not found", True), ("timed out", False)])
def test_expect_error__error_text_is_evaluated(expected: str, passed: bool) -> None:
    evaluator = EvaluatorConfig(expect_error=True, expected=expected)
    task = direct_task(faults(), "fail", arguments={"text": "not found"}, evaluator=evaluator)
    result = run(task).result
    assert (result.outcome, result.response) == (AttemptOutcome.SCORED, "not found")
    assert result.passed is passed


def test_expect_error__missing_error_fails() -> None:
    evaluator = EvaluatorConfig(expect_error=True, expected="fine")
    task = direct_task(faults(), "echo", arguments={"text": "fine"}, evaluator=evaluator)
    assert run(task).result.passed is False


@pytest.mark.parametrize(
    ("named", "passed"),
    [
        ({"expected": "not completed within its timeout"}, True),
        ({"regex": "was waiting for hang"}, True),
        ({}, True),
        ({"expected": "no such zone"}, False),
        ({"regex": "no such zone"}, False),
        ({"regex": "no such zone", "expect_match": False}, True),
    ],
)
def test_expect_error__timeout_of_a_tool_is_evaluated_like_an_answer(
    named: dict[str, Any], passed: bool
) -> None:
    evaluator = EvaluatorConfig(expect_error=True, **named)
    task = direct_task(faults(), "hang", evaluator=evaluator, timeout_s=0.2)
    result = run(task).result
    assert (result.outcome, result.passed) == (AttemptOutcome.SCORED, passed)
    assert result.response == (
        "not completed within its timeout of 0.2 s; it was waiting for hang of faults"
    )


@pytest.mark.parametrize(
    ("named", "passed"),
    [
        ({}, None),
        ({"expected": "No such file"}, None),  # why it did not start, as a tool might say
        ({"expected": "does not start"}, None),
        ({"regex": ".", "prompt": "{response}", "model": "m", "min_score": 1}, None),
        ({"expected": "server 's' does not start"}, True),
        ({"expected": "server 's' does not start: 'no-such-program' cannot be started"}, True),
        ({"expected": ["server 's' does not start", "no answer"]}, None),
    ],
)
def test_expect_error__failed_start_passes_only_when_named(
    named: dict[str, Any], passed: bool | None
) -> None:
    evaluator = EvaluatorConfig(expect_error=True, **named)
    result = run(direct_task(stdio("s", "no-such-program"), "echo", evaluator=evaluator)).result
    assert result.passed is passed
    assert result.outcome is (AttemptOutcome.SCORED if passed else AttemptOutcome.INFRA_ERROR)


def test_expect_error__rejected_key_is_not_a_tool_error() -> None:
    model = failing(LlmError("401: wrong key", kind=LlmErrorKind.AUTH))
    evaluator = EvaluatorConfig(expect_error=True, expected=401)
    result = run(harness_task(faults(), evaluator=evaluator), model=model).result
    assert (result.outcome, result.passed) == (AttemptOutcome.INFRA_ERROR, None)


def judged(answer: str) -> TaskResult:
    """The result of a task whose judge gives this answer."""

    def play(request: Request) -> Turn:
        return says(answer if "judge" in request.system else "Blue.", (10, 2))

    evaluator = EvaluatorConfig(
        prompt="Is {response} what {expected} is?", expected="lu", model="m", min_score=80
    )
    prices = {"m": Price(input_usd=1.0, output_usd=2.0)}
    return run(harness_task(evaluator=evaluator), model=ScriptedModel(play), prices=prices).result


def test_judge__usage_is_separate_from_the_model() -> None:
    result = judged('{"score": 90, "reason": "yes"}')
    assert (result.outcome, result.passed) == (AttemptOutcome.SCORED, True)
    assert len(result.llm_calls) == 1
    assert result.judge is not None
    assert (result.judge.input_tokens, result.judge.output_tokens) == (10, 2)
    assert result.judge.cost_usd == pytest.approx(14e-6)


def test_judge__unusable_answer_is_a_judge_error() -> None:
    result = judged("Lovely.")
    assert (result.outcome, result.passed) == (AttemptOutcome.JUDGE_ERROR, None)
    assert result.response == "Blue."


class SleepingJudge(Asleep):
    """Answers tasks at once, but never answers as a judge."""

    async def turn(self, *arguments: object) -> Turn:
        return await super().turn() if "judge" in str(arguments[0]) else says("Blue.")


def test_judge__timeout_is_that_of_the_task() -> None:
    evaluator = EvaluatorConfig(prompt="{response}", model="m")
    judge = SleepingJudge(lambda _: says(""))
    result = run(harness_task(evaluator=evaluator, timeout_s=0.2), model=judge).result
    assert result.error is not None
    assert result.error.kind is ErrorKind.JUDGE
    assert result.error.detail == (
        "the judge did not answer: m: timed out after 0.2 s: no response to request 1 for 0.2 s"
    )
    assert judge.is_cancelled


def test_server_pool__each_task_has_its_own_servers() -> None:
    tasks = [direct_task(faults(), "count", name=name) for name in ("a", "b")]
    assert [result.response for result in run(*tasks).report.results] == ["1", "1"]


def test_server_pool__scenario_shares_a_server() -> None:
    tasks = [direct_task(faults(), "count", name=n, share_servers=True) for n in ("a", "b", "c")]
    other = direct_task(faults(), "count", name="d", scenario="other", share_servers=True)
    responses = [result.response for result in run(*tasks, other).report.results]
    assert sorted(str(response) for response in responses[:3]) == ["1", "2", "3"]
    assert responses[3] == "1"


def test_server_pool__restarts_a_dead_shared_server() -> None:
    tools = ["count", "die", "count"]
    tasks = [
        direct_task(faults(), tool, name=str(n), share_servers=True) for n, tool in enumerate(tools)
    ]
    report = run(*tasks, concurrency=1).report
    assert [result.response for result in report.results] == ["1", None, "1"]


def test_server_pool__restarts_a_hanging_shared_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process lives but ignores pings; every later task would wait for it."""
    monkeypatch.setattr("app.harness.mcp.mcp_server.PING_TIMEOUT_S", 0.1)
    calls_and_timeouts = [("count", 60.0), ("hang", 0.2), ("count", 60.0)]
    tasks = [
        direct_task(faults(), tool, name=str(n), share_servers=True, timeout_s=timeout_s)
        for n, (tool, timeout_s) in enumerate(calls_and_timeouts)
    ]
    report = run(*tasks, concurrency=1).report
    assert [result.response for result in report.results] == ["1", None, "1"]


def test_server_pool__keeps_shared_server_after_timeout_of_the_model() -> None:
    slow = harness_task(faults(), name="slow", share_servers=True, timeout_s=0.05)
    after, last = (direct_task(faults(), "count", name=n, share_servers=True) for n in "ab")
    report = run(after, slow, last, model=Asleep(lambda _: says("")), concurrency=1).report
    assert [result.response for result in report.results] == ["1", None, "2"]


def test_server_pool__failed_start_of_shared_server_is_not_retried(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    server = stdio("s", "sh", "-c", 'echo started >> "$FILE"', env={"FILE": str(starts)})
    tasks = [direct_task(server, "count", name=n, share_servers=True) for n in ("a", "b", "c")]
    report = run(*tasks, concurrency=1).report
    kinds = [result.error.kind for result in report.results if result.error]
    assert kinds == [ErrorKind.SERVER_START] * 3
    assert starts.read_text() == "started\n"


def test_run_plan__sends_events_in_order() -> None:
    model = scripted(calls(("echo", {"text": "x"})), says("Done."))
    ran = run(harness_task(faults()), model=model, trace=True)
    kinds = [type(event) for event in ran.events if not isinstance(event, Traced)]
    assert kinds == [AttemptBegan, ServerSeen, AttemptEnded]
    lines = [event.line for event in ran.events if isinstance(event, Traced)]
    assert lines[0] == "-> 1 messages, 16 tools"
    assert "echo {'text': 'x'} = x" in lines


def test_run_plan__reports_changed_tools_of_a_restarted_server() -> None:
    tasks = [
        direct_task(faults(*habits), "echo", name=name)
        for name, habits in (("a", ()), ("b", ()), ("c", ("toolless",)))
    ]
    ran = run(*tasks, concurrency=1)
    server_events = [event for event in ran.events if isinstance(event, ServerSeen)]
    assert [event.changed for event in server_events] == [False, True]


def test_run_plan__runs_only_missing_attempts() -> None:
    done = run(harness_task(name="a")).result
    model = scripted(says("Anew."))
    report = run(
        harness_task(name="a"), harness_task(name="b"), model=model, completed_results=(done,)
    ).report
    assert [result.response for result in report.results] == ["Done.", "Anew."]
    assert len(model.requests) == 1
    assert report.complete


def test_run_plan__repeats_every_task_per_trial() -> None:
    report = run(harness_task(name="a"), harness_task(name="b"), trials=2).report
    assert [(result.task, result.trial) for result in report.results] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("b", 1),
    ]


def test_run_plan__cancellation_keeps_sent_results_and_stops_the_rest() -> None:
    lines: list[str] = []

    async def cancel() -> None:
        plan = McpRunPlan(
            tasks=(harness_task(name="a"), direct_task(faults(), "hang", name="b")), concurrency=1
        )
        began: list[AttemptBegan] = []
        second = asyncio.Event()

        def listen(event: object) -> None:
            if isinstance(event, AttemptEnded):
                lines.append(event.result.task)
            elif isinstance(event, AttemptBegan):
                began.append(event)
                if len(began) == 2:
                    second.set()

        running = asyncio.create_task(
            run_plan(plan, listen, open_llm_model=lambda *_: scripted(says("Done.")))
        )
        await second.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel())
    assert lines == ["a"]
