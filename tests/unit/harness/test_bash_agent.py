"""The agent loop of a task and the runner around it, with scripted models."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from app.harness.bash.agent import (
    BASH,
    AgentAttempt,
    AttemptLimits,
    attempt_task,
    parse_call,
    tool_text,
)
from app.harness.bash.attempt_runner import RunLimits, Runner, Trial, plan_trials
from app.harness.bash.check_registry import CHECKS, Check, CheckResult, load_checks
from app.harness.bash.judge import BashJudge, judge_prompt, read_judgement
from app.harness.bash.replay import rescore
from app.harness.bash.result_file import read_report
from app.harness.bash.result_journal import Recorder, resume_report
from app.harness.bash.sandbox import SandboxLimits, sandbox_prompt
from app.harness.bash.transcript import attempt_transcript
from app.harness.bash.types import EvalResult, EvalTask
from app.harness.budget import Budget, BudgetLimits
from app.harness.judge import JudgeError
from app.harness.result_file import IncompatibleRun
from app.harness.results import AttemptOutcome, ConversationEnding
from app.harness.transcript import TranscriptMessage
from app.llm.conversation import (
    ChatMessage,
    Llm,
    MessageRole,
    StopReason,
    TextBlock,
    Tool,
    ToolUseBlock,
    Turn,
    TurnSettings,
    Usage,
)
from app.llm.errors import LlmError, LlmErrorKind
from app.llm.prices import Price
from app.llm.retry import call_with_retries
from app.llm.scripted import Script, ScriptedLlm
from app.llm.sdk import SdkErrors, call_sdk
from app.llm.turn_cache import CachedLlm
from tests.support.bash_eval import call, report, result, task, trace

TEN = Usage(input_tokens=8, output_tokens=2)


@pytest.fixture(autouse=True, scope="module")
def _loaded_checks() -> None:
    load_checks()


def turn(
    *commands: str, text: str = "", stop: StopReason | None = None, usage: Usage | None = TEN
) -> Turn:
    blocks: list[TextBlock | ToolUseBlock] = [TextBlock(text=text)] if text else []
    blocks += [
        ToolUseBlock(id=str(n), name="bash", input={"commands": command})
        for n, command in enumerate(commands)
    ]
    return Turn(
        message=ChatMessage(role=MessageRole.ASSISTANT, content=tuple(blocks)),
        stop=stop or (StopReason.TOOL_USE if commands else StopReason.END),
        usage=usage,
    )


@dataclass(slots=True)
class ScriptedTurns:
    """A model that returns the given turns in order and then repeats the last one; it raises errors."""

    turns: Sequence[Turn | LlmError]
    provider: str = "model"
    model: str = "p"
    received: list[Sequence[ChatMessage]] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], _: Sequence[Tool], /
    ) -> Turn:
        await asyncio.sleep(0)
        reply = self.turns[min(len(self.received), len(self.turns) - 1)]
        self.received.append(tuple(messages))
        self.systems.append(system)
        if isinstance(reply, LlmError):
            raise reply
        return reply

    async def close(self) -> None:
        """No connection is open."""


@pytest.fixture
def expire_time_limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the outermost time limit expire in a moment, however slow the machine is."""
    time_limits: list[asyncio.Timeout] = []
    open_timeout = asyncio.timeout

    def record_timeout(delay: float | None) -> asyncio.Timeout:
        time_limits.append(open_timeout(delay))
        return time_limits[-1]

    monkeypatch.setattr(asyncio, "timeout", record_timeout)
    return lambda: time_limits[0].reschedule(asyncio.get_running_loop().time() + 0.1)


@dataclass(slots=True)
class TimedModel(ScriptedTurns):
    """A model that lets the time limit expire after its second reply."""

    expire: Callable[[], None] = lambda: None

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool], /
    ) -> Turn:
        reply = await ScriptedTurns.turn(self, system, messages, tools)
        if len(self.received) == 2:
            self.expire()
        return reply


def attempt(
    *turns: Turn | LlmError, eval_task: EvalTask | None = None, **limits: Any
) -> AgentAttempt:
    budget = limits.pop("budget", None) or Budget()
    return asyncio.run(
        attempt_task(eval_task or task(), ScriptedTurns(turns), AttemptLimits(**limits), budget)
    )


def run_all(
    llm: Llm,
    *tasks: EvalTask,
    budget: Budget | None = None,
    judge: BashJudge | None = None,
    **limits: Any,
) -> list[EvalResult]:
    results: list[EvalResult] = []
    runner = Runner(
        lambda _: llm,
        RunLimits(**{"concurrency": 1, **limits}),
        budget or Budget(),
        on_result=results.append,
        judge=judge,
    )
    asyncio.run(runner.run(plan_trials(tasks, 1)))
    return results


def test_agent_loop__model_without_tool_calls_stops_naturally() -> None:
    agent_attempt = attempt(turn("echo one", "echo two"), turn(text="Done."))
    assert (agent_attempt.trace.ending, agent_attempt.trace.natural_stop) == (
        ConversationEnding.NATURAL,
        True,
    )
    assert (agent_attempt.trace.turns, agent_attempt.trace.tool_call_count) == (2, 2)
    assert (agent_attempt.trace.total_input_tokens, agent_attempt.trace.total_output_tokens) == (
        16,
        4,
    )
    assert agent_attempt.trace.last_tool_response == agent_attempt.trace.tool_calls[1]
    assert [tool_call.stdout for tool_call in agent_attempt.trace.tool_calls] == ["one\n", "two\n"]


def test_agent_loop__results_of_one_turn_are_one_message() -> None:
    agent_attempt = attempt(turn("true", "false"), turn(text="Done."))
    results = agent_attempt.trace.messages[2]
    assert results.role is MessageRole.TOOL_RESULT
    assert [getattr(block, "is_error", None) for block in results.content] == [False, True]


def test_agent_loop__records_how_long_a_command_took() -> None:
    unknown = ToolUseBlock(id="0", name="fetch", input={})
    message = ChatMessage(role=MessageRole.ASSISTANT, content=(unknown,))
    refused = Turn(message=message, stop=StopReason.TOOL_USE, usage=TEN)
    slept, not_run = attempt(turn("sleep 0.05"), refused, turn(text="Done.")).trace.tool_calls
    assert slept.duration_ms is not None
    assert slept.duration_ms >= 40
    assert not_run.duration_ms is None


def test_turn_limit__trace_ends_with_results_of_last_turn() -> None:
    agent_attempt = attempt(turn("echo again"), max_turns=3)
    assert (agent_attempt.trace.ending, agent_attempt.trace.natural_stop) == (
        ConversationEnding.TURN_LIMIT,
        False,
    )
    assert (agent_attempt.trace.turns, agent_attempt.trace.tool_call_count) == (3, 3)
    assert agent_attempt.trace.messages[-1].role is MessageRole.TOOL_RESULT


def test_system_prompt__task_prompt_overrides_sandbox_prompt() -> None:
    for system, expected in ((None, sandbox_prompt()), ("", ""), ("Own.", "Own.")):
        model = ScriptedTurns([turn(text="Done.")])
        asyncio.run(attempt_task(task(system=system), model, AttemptLimits(), Budget()))
        assert model.systems == [expected]


def test_transcript__begins_with_the_system_message() -> None:
    for system, expected in ((None, sandbox_prompt()), ("Own.", "Own.")):
        [attempted] = run_all(ScriptedTurns([turn(text="Done.")]), task(system=system))
        transcript = attempt_transcript(attempted)
        assert transcript is not None
        assert transcript.steps[0] == TranscriptMessage(role="system", text=expected)


def test_time_limit__trace_keeps_finished_turns(expire_time_limit: Callable[[], None]) -> None:
    limits = AttemptLimits(sandbox=SandboxLimits(timeout_s=600))
    model = TimedModel([turn("echo x"), turn("sleep 600")], expire=expire_time_limit)
    agent_attempt = asyncio.run(attempt_task(task(), model, limits, Budget()))
    assert agent_attempt.trace.ending is ConversationEnding.TIME_LIMIT
    finished, stopped = agent_attempt.trace.tool_calls
    assert (finished.commands, finished.ran) == ("echo x", True)
    assert (stopped.ran, stopped.stderr) == (
        False,
        "not run: the time limit of the task was reached",
    )
    assert agent_attempt.trace.messages[-1].role is MessageRole.TOOL_RESULT
    assert agent_attempt.failure is None


def use_of(name: str = "bash", *, flaw: str | None = None, **arguments: Any) -> ToolUseBlock:
    return ToolUseBlock(id=f"call-{name}", name=name, input=arguments, flaw=flaw)


def test_agent_loop__every_tool_use_block_is_one_recorded_call() -> None:
    blocks = (
        use_of(commands="echo one"),
        use_of(flaw="the arguments are not JSON"),
        use_of("python", commands="print()"),
        use_of(cmd="echo two"),
    )
    mixed = replace(turn(text=""), message=ChatMessage(role=MessageRole.ASSISTANT, content=blocks))
    recorded_trace = attempt(mixed, turn(text="Done.")).trace
    assert recorded_trace.tool_call_count == len(recorded_trace.tool_calls) == 4
    assert recorded_trace.calls_ok() == 1
    assert [tool_call.ran for tool_call in recorded_trace.tool_calls] == [True, False, False, False]
    assert [tool_call.exit_code for tool_call in recorded_trace.tool_calls] == [0, 2, 2, 2]
    answers = recorded_trace.messages[2].content
    assert [getattr(block, "is_error", None) for block in answers] == [False, True, True, True]


def test_agent_loop__calls_of_truncated_turn_are_errors() -> None:
    cut = replace(turn("rm -rf /tmp"), stop=StopReason.TRUNCATED)
    recorded_trace = attempt(cut).trace
    assert recorded_trace.ending is ConversationEnding.TRUNCATED
    [tool_call] = recorded_trace.tool_calls
    assert (tool_call.ran, recorded_trace.calls_ok()) == (False, 0)
    assert "truncated" in tool_call.stderr


def test_time_limit__server_without_answer_is_infra_error() -> None:
    class Silent(ScriptedTurns):
        async def turn(self, *_: Any) -> Turn:
            await asyncio.sleep(60)
            raise AssertionError

    limits = AttemptLimits(time_s=0.01)
    agent_attempt = asyncio.run(attempt_task(task(), Silent([]), limits, Budget()))
    assert agent_attempt.trace.ending is ConversationEnding.ERROR
    assert str(agent_attempt.failure).startswith(
        "timed out after 0.01 s: no response to request 1 for "
    )


class ConnectionLost(Exception):
    """The server does not respond."""


ERRORS = SdkErrors(status=AssertionError, connection=ConnectionLost, any=ConnectionLost)


@dataclass(slots=True)
class RecoveringModel(ScriptedTurns):
    """A model whose server is busy once, in the second turn.

    The time limit of the task expires in turn `late`; in turn 2 that is before the retry.
    """

    late: int = 2

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool], /
    ) -> Turn:
        number = len(self.received) + 1
        errors = [ConnectionLost("busy")] if number == 2 else []

        async def call() -> Turn:
            if errors:
                raise errors.pop()
            return await ScriptedTurns.turn(self, system, messages, tools)

        async def sleep(_: float) -> None:
            if number == self.late:
                raise TimeoutError

        if number == self.late > 2:
            raise TimeoutError
        return await call_with_retries(lambda: call_sdk(call, ERRORS, 60.0), sleep=sleep)


def test_time_limit__retried_request_is_infra_error() -> None:
    agent_attempt = asyncio.run(
        attempt_task(task(), RecoveringModel([turn("true")]), AttemptLimits(), Budget())
    )
    assert (
        agent_attempt.trace.ending,
        agent_attempt.trace.turns,
        agent_attempt.trace.tool_call_count,
    ) == (
        ConversationEnding.ERROR,
        1,
        1,
    )
    assert str(agent_attempt.failure) == (
        "timed out after 1 × no connection within 600 s (last: no response: busy)"
    )


def test_time_limit__failures_of_an_earlier_request_are_not_those_of_this_one() -> None:
    """The second request recovered; the third one is only slow."""
    late = RecoveringModel([turn("true")], late=3)
    agent_attempt = asyncio.run(attempt_task(task(), late, AttemptLimits(), Budget()))
    assert (agent_attempt.trace.ending, agent_attempt.trace.turns) == (ConversationEnding.ERROR, 2)
    assert str(agent_attempt.failure).startswith(
        "timed out after 600 s: no response to request 3 for "
    )


def test_task_budget__exhausted_budget_ends_task_before_next_turn() -> None:
    dear = Price(input_usd=1_000_000.0, output_usd=0.0)
    for budget_limits, ending in (
        (BudgetLimits(tokens=20), ConversationEnding.TOKEN_LIMIT),
        (BudgetLimits(cost_usd=16.0), ConversationEnding.COST_LIMIT),
    ):
        agent_attempt = attempt(turn("true"), budget=Budget(limits=budget_limits, price=dear))
        assert (agent_attempt.trace.ending, agent_attempt.trace.turns) == (ending, 2)
        assert agent_attempt.trace.cost_usd == 16.0


def test_usage__missing_tokens_make_sum_unknown() -> None:
    agent_attempt = attempt(turn("true"), turn(text="x", usage=None))
    assert (agent_attempt.trace.total_input_tokens, agent_attempt.trace.cost_usd) == (None, None)


def test_provider_error__trace_keeps_finished_turns() -> None:
    agent_attempt = attempt(turn("echo x"), LlmError("overloaded"))
    assert agent_attempt.failure is not None
    assert (agent_attempt.trace.ending, agent_attempt.trace.tool_call_count) == (
        ConversationEnding.ERROR,
        1,
    )


@pytest.mark.parametrize(
    ("tool_input", "commands"),
    [
        ({"commands": "a"}, "a"),
        ({"script": "b"}, "b"),
        ({"commands": "a", "script": "b"}, "a"),
        ({"commands": ""}, ""),
    ],
)
def test_parse_call__reads_commands_or_script(tool_input: dict[str, Any], commands: str) -> None:
    parsed_call = parse_call(ToolUseBlock(id="1", name="bash", input=tool_input))
    assert (parsed_call.commands, parsed_call.error) == (commands, None)


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (ToolUseBlock(id="1", name="python", input={}), "there is no tool 'python'; use bash"),
        (ToolUseBlock(id="1", name="bash", input={}, flaw="bad"), "bad; send"),
        (ToolUseBlock(id="1", name="bash", input={"commands": 3}), "commands must be a text"),
        (ToolUseBlock(id="1", name="bash", input={"cmd": "ls"}), "commands is missing (cmd given)"),
        (ToolUseBlock(id="1", name="bash", input={}), "commands is missing (no argument given)"),
    ],
)
def test_parse_call__invalid_call_is_answered_with_reason(use: ToolUseBlock, reason: str) -> None:
    assert reason in (parse_call(use).error or "")


@pytest.mark.parametrize("value", [None, "5", True, -1, [1]])
def test_parse_call__invalid_timeout_is_ignored(value: Any) -> None:
    use = ToolUseBlock(id="1", name="bash", input={"commands": "x", "timeout_ms": value})
    assert parse_call(use).timeout_ms is None


def test_bash_tool__schema_equals_reference() -> None:
    assert BASH.schema["required"] == ["commands"]
    assert set(BASH.schema["properties"]) == {"commands", "timeout_ms"}


@pytest.mark.parametrize(
    ("done", "text"),
    [
        (call("out\n"), "out\n"),
        (call("out", stderr="err"), "out\nSTDERR: err"),
        (call("", stderr="err"), "STDERR: err"),
        (call("out", code=2), "out\nExit code: 2"),
        (call("out\n", stderr="err", code=2), "out\n\nSTDERR: err\nExit code: 2"),
        (call("", code=2), "Exit code: 2"),
        (call(""), "(no output)"),
    ],
)
def test_tool_text__contains_output_errors_and_exit_code(done: Any, text: str) -> None:
    assert tool_text(done) == text


def test_runner__scores_each_task() -> None:
    results = run_all(
        ScriptedTurns([turn("echo x"), turn(text="Done.")]), task("stdout_contains:x")
    )
    assert [entry.passed() for entry in results] == [True]


def test_runner__errored_task_does_not_stop_run() -> None:
    model = ScriptedTurns([LlmError("overloaded"), turn("true"), turn(text="Done.")])
    first, second = run_all(model, task(task_id="a"), task(task_id="b"))
    assert (first.outcome, first.reason) == (AttemptOutcome.INFRA_ERROR, "overloaded")
    assert second.passed()


def test_runner__final_error_skips_remaining_tasks() -> None:
    model = ScriptedTurns([LlmError("no such key", kind=LlmErrorKind.AUTH)])
    first, second = run_all(model, task(task_id="a"), task(task_id="b"))
    assert first.outcome is AttemptOutcome.INFRA_ERROR
    assert (second.outcome, second.reason) == (
        AttemptOutcome.SKIPPED,
        "not asked: the model was given up after a: no such key",
    )
    assert len(model.received) == 1


def test_run_budget__is_shared_by_all_tasks() -> None:
    model = ScriptedTurns([turn(text="Done.")])
    budget = Budget(limits=BudgetLimits(tokens=10))
    first, second = run_all(model, task(task_id="a"), task(task_id="b"), budget=budget)
    assert first.outcome is AttemptOutcome.SCORED
    assert (second.outcome, second.reason) == (
        AttemptOutcome.SKIPPED,
        "the run reached its limit of tokens",
    )


def test_run_time_limit__keeps_finished_attempts(expire_time_limit: Callable[[], None]) -> None:
    model = TimedModel([turn(text="Done."), turn("sleep 600")], expire=expire_time_limit)
    results = run_all(model, task(task_id="a"), task(task_id="b"), time_s=600.0)
    assert [entry.task.id for entry in results] == ["a"]


def test_runner__concurrency_is_limited() -> None:
    active_counts: list[int] = []
    active = 0

    class Busy(ScriptedTurns):
        async def turn(self, *_: Any) -> Turn:
            nonlocal active
            active += 1
            active_counts.append(active)
            await asyncio.sleep(0.01)
            active -= 1
            return turn(text="Done.")

    run_all(Busy([]), *(task(task_id=str(n)) for n in range(6)), concurrency=3)
    assert max(active_counts) == 3


def test_plan_trials__repeats_whole_dataset() -> None:
    first_task, second_task = task(task_id="a"), task(task_id="b")
    assert plan_trials([first_task, second_task], 2) == [
        Trial(first_task, 0),
        Trial(second_task, 0),
        Trial(first_task, 1),
        Trial(second_task, 1),
    ]


JUDGED = task("llm_judge:kind?", "llm_judge:kind?", "exit_code:0")


def judge_with_answer(answer: str) -> EvalResult:
    judge = BashJudge(ScriptedTurns([turn(text=answer)]), Price(input_usd=1.0, output_usd=1.0))
    [scored] = run_all(ScriptedTurns([turn("true"), turn(text="Done.")]), JUDGED, judge=judge)
    return scored


def test_judge__repeated_question_is_asked_once() -> None:
    judged_result = judge_with_answer('I think: {"score": 0.75, "reason": "mostly"} – so there.')
    assert judged_result.score is not None
    first = judged_result.score.results[0]
    assert (first.passed, first.weight, first.detail) == (True, 1.0, "judged 0.75: mostly")
    assert first.judgement is not None
    assert (first.judgement.input_tokens, first.judgement.cost_usd) == (8, 10e-6)
    assert judged_result.trace is not None
    assert judged_result.trace.total_input_tokens == 16


def test_judge__cost_counts_in_run_budget_at_own_price() -> None:
    """Each turn has 10 tokens: two turns of the model at 1 $ per token, one of the judge at 3 $."""
    run = Budget(price=Price(input_usd=1e6, output_usd=1e6))
    judge = BashJudge(
        ScriptedTurns([turn(text='{"score": 1}')]), Price(input_usd=3e6, output_usd=3e6)
    )
    run_all(ScriptedTurns([turn("true"), turn(text="Done.")]), JUDGED, judge=judge, budget=run)
    assert (run.known_usd, run.known_input_tokens + run.known_output_tokens) == (
        2 * 10 * 1 + 10 * 3,
        30,
    )


@pytest.mark.parametrize(
    "answer",
    ["yes", "", '{"score": 2}', '{"score": true}', '{"score": NaN}', '{"reason": "x"}', "[1]"],
)
def test_judge__invalid_answer_is_judge_error(answer: str) -> None:
    judged_result = judge_with_answer(answer)
    assert (judged_result.outcome, judged_result.score) == (AttemptOutcome.JUDGE_ERROR, None)
    assert judged_result.reason


def test_judge__final_error_stops_run() -> None:
    """The judge could not score any attempt at the remaining tasks."""
    judge = BashJudge(ScriptedTurns([LlmError("401: wrong key", kind=LlmErrorKind.AUTH)]))
    model = ScriptedTurns([turn(text="Done.")])
    results = run_all(model, JUDGED, replace(JUDGED, id="next"), judge=judge)
    assert [entry.outcome for entry in results] == [
        AttemptOutcome.JUDGE_ERROR,
        AttemptOutcome.SKIPPED,
    ]
    assert results[1].reason == (
        "not asked: the judge was given up after t: the judge did not answer: 401: wrong key"
    )
    assert len(model.received) == 1


def test_runner__raising_check_is_judge_error_of_its_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = Check(summary="divides by zero", evaluate=lambda _, __: CheckResult(1 // 0 > 0, ""))
    find = CHECKS.find
    monkeypatch.setattr(CHECKS, "find", lambda name: broken if name == "broken" else find(name))
    results = run_all(
        ScriptedTurns([turn(text="Done.")]), task("broken:x"), task("tool_calls_max:0")
    )
    assert [entry.outcome for entry in results] == [
        AttemptOutcome.JUDGE_ERROR,
        AttemptOutcome.SCORED,
    ]
    assert (results[0].reason or "").startswith("the check broken raised ZeroDivisionError")
    assert rescore(report(replace(results[1], task=task("broken:x")))).agreement.checks.total == 0


def test_judge_prompt__long_transcript_loses_its_middle() -> None:
    message = ChatMessage(
        role=MessageRole.ASSISTANT, content=(TextBlock(text="a" * 100_000 + "end"),)
    )
    long = trace(messages=(ChatMessage(role=MessageRole.USER, content=()), message))
    prompt = judge_prompt("q", task(), long)
    assert len(prompt) < 61_000
    assert "end\ntranscript>>>" in prompt


def test_read_judgement__cost_without_price_is_unknown() -> None:
    assert read_judgement(turn(text='{"score": 1}'), None).cost_usd is None
    with pytest.raises(JudgeError):
        read_judgement(turn(), None)


def test_llm_cache__cached_request_is_sent_once(tmp_path: Path) -> None:
    model = ScriptedTurns([turn("echo x"), turn(text="Done.")])

    def ask(trial: int, *, only_cached: bool = False) -> AgentAttempt:
        llm = CachedLlm(
            model, tmp_path, TurnSettings(), server=None, trial=trial, only_cached=only_cached
        )
        return asyncio.run(attempt_task(task(), llm, AttemptLimits(), Budget()))

    first, again = ask(0), ask(0, only_cached=True)
    assert len(model.received) == 2
    assert again.trace.messages == first.trace.messages
    missing = ask(1, only_cached=True)
    assert missing.failure is not None
    assert not missing.failure.final


def test_llm_cache__invalid_file_is_requested_again(tmp_path: Path) -> None:
    model = ScriptedTurns([turn(text="Done.")])
    llm = CachedLlm(model, tmp_path, TurnSettings(), server=None, trial=0, only_cached=False)
    for _ in range(2):
        asyncio.run(attempt_task(task(), llm, AttemptLimits(), Budget()))
        [file] = tmp_path.iterdir()
        file.write_text("{")
    assert len(model.received) == 2


def test_scripted_model__plays_turns_of_its_task() -> None:
    llm = ScriptedLlm("s", {"Do it.": Script(turns=(("echo a", "echo b"), ("echo c",)))})
    agent_attempt = asyncio.run(attempt_task(task(), llm, AttemptLimits(), Budget()))
    assert [tool_call.commands for tool_call in agent_attempt.trace.tool_calls] == [
        "echo a",
        "echo b",
        "echo c",
    ]
    assert agent_attempt.trace.natural_stop
    unknown = asyncio.run(attempt_task(task(prompt="Else."), llm, AttemptLimits(), Budget()))
    assert unknown.failure is not None


def recorder(path: Path | None, *results: EvalResult) -> Recorder:
    trials = plan_trials([task(task_id="a"), task(task_id="b")], 1)
    return Recorder(report(*results), trials, path)


def test_recorder__unfinished_run_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    keeper = recorder(path)
    keeper.add(result(task(task_id="b"), True))
    on_disk = read_report(path).results
    assert [(attempt_result.task.id, attempt_result.outcome) for attempt_result in on_disk] == [
        ("a", AttemptOutcome.SKIPPED),
        ("b", AttemptOutcome.SCORED),
    ]
    keeper.finish("interrupted")
    assert read_report(path).results[0].reason == "interrupted"
    assert path.with_suffix(".md").exists()


def test_resume__repeats_only_attempts_without_score() -> None:
    before = report(
        result(task(task_id="a"), True),
        EvalResult(task=task(task_id="b"), outcome=AttemptOutcome.INFRA_ERROR, reason="gone"),
    )
    trials = plan_trials([task(task_id="a"), task(task_id="b")], 1)
    resumed = resume_report(report(timestamp="later"), before, trials)
    assert [attempt_result.task.id for attempt_result in resumed.results] == ["a"]
    assert resumed.timestamp == before.timestamp
    assert [trial.task.id for trial in Recorder(resumed, trials, None).missing()] == ["b"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"model": "other"}, "not scripted/other"),
        ({"max_turns": 3}, "other settings: max_turns"),
        ({"settings": {"judge_model": "j", "bashkit": "1"}}, "other settings: judge_model"),
    ],
)
def test_resume__other_model_or_settings_are_refused(changed: Any, reason: str) -> None:
    before = report(settings={"judge_model": None, "bashkit": "1"})
    with pytest.raises(IncompatibleRun, match=reason):
        resume_report(replace(before, **changed), before, [])


def test_resume__selection_that_loses_scores_is_refused() -> None:
    before = report(result(task(task_id="a"), True), result(task(task_id="b"), True))
    with pytest.raises(IncompatibleRun, match="not selected: b"):
        resume_report(report(), before, plan_trials([task(task_id="a")], 1))


def test_resume__edited_task_runs_again() -> None:
    before = report(result(task(task_id="a", prompt="Old."), True))
    trials = plan_trials([task(task_id="a")], 1)
    assert resume_report(report(), before, trials).results == ()
