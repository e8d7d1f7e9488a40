"""Progress of a harness run: running attempts, counts, waits, and how to continue."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from mosaico.harness.commands import progress
from mosaico.harness.commands.progress import RunProgress, WaitLog, show_progress
from mosaico.harness.commands.run_command import resume_command
from mosaico.harness.reports.view import AttemptStatus, AttemptView
from mosaico.harness.running_attempts import (
    RunningAttempt,
    RunningAttempts,
    announce_model,
    collect_running_attempts,
    describe_activity,
    running_attempt,
)
from mosaico.harness.watched_llm import WatchedLlm
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    StopReason,
    TextBlock,
    Turn,
    Usage,
    user_message,
)
from mosaico.llm.errors import LlmError, LlmErrorKind
from mosaico.llm.retry import RetryWait, call_with_retries

LIMITED = LlmError("slow down", kind=LlmErrorKind.RATE_LIMITED, status=429)


class LimitedLlm:
    """A model whose first request fails once with 429; `waits` describes the wait."""

    provider, model = "tests", "m"

    def __init__(self, watched: list[WatchedLlm]) -> None:
        self._watched = watched
        self._failed = False
        self._now_s = 0.0
        self.waits: list[str] = []

    async def turn(self, *_: object) -> Turn:
        return await call_with_retries(
            self._answer, sleep=self._note_wait, clock=lambda: self._now_s
        )

    async def close(self) -> None:
        """Nothing is open."""

    async def _answer(self) -> Turn:
        if not self._failed:
            self._failed = True
            raise LIMITED
        message = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text="Yes."),))
        usage = Usage(input_tokens=30, output_tokens=2)
        return Turn(message=message, stop=StopReason.END, usage=usage)

    async def _note_wait(self, seconds: float) -> None:
        # The clock goes on by the wait, so that the wait is measured and takes no time.
        self._now_s += seconds
        attempt = RunningAttempt("task", time.monotonic(), self._watched[0])
        self.waits.append(describe_activity(attempt, time.monotonic()))


def ask(times: int) -> tuple[WatchedLlm, LimitedLlm]:
    watched: list[WatchedLlm] = []
    limited = LimitedLlm(watched)
    llm = WatchedLlm(limited)
    watched.append(llm)

    async def run() -> None:
        for _ in range(times):
            await llm.turn("", [user_message("?")], [])

    asyncio.run(run())
    return llm, limited


def attempt(status: AttemptStatus, name: str = "a", error: str = "") -> AttemptView:
    label = {"PASSED": "PASS", "FAILED": "FAIL", "ERROR": "ERROR", "SKIPPED": "SKIP"}[status.name]
    return AttemptView(
        task=name, title=name, label=label, status=status, group="g", case=name, duration_s=1.0,
        error=error,
    )  # fmt: skip


def test_watched_llm__records_every_request_with_its_retries_and_waits() -> None:
    llm, _ = ask(2)
    first, second = llm.requests
    assert (first.input_tokens, first.output_tokens, first.retries) == (30, 2, 1)
    # The first wait between two requests of an agent's turn is 2 s.
    assert first.waited_ms == 2000.0
    assert (second.retries, second.waited_ms) == (0, 0.0)
    assert llm.retries().failures == {"429": 1}
    assert llm.retries().waited_ms == 2000.0


def test_running_attempts__are_on_the_board_while_they_run() -> None:
    llm, _ = ask(1)
    with collect_running_attempts() as board:
        with running_attempt("first"):
            announce_model(llm)
            with running_attempt("second"):
                assert [attempt.label for attempt in board.attempts] == ["first", "second"]
            assert board.attempts[0].llm is llm
        assert board.attempts == []
    with running_attempt("without a display"):
        announce_model(llm)


def test_run_progress__counts_and_estimates_by_the_pace_of_this_run() -> None:
    run = RunProgress(total=10, done_before=4)
    assert (run.describe(), run.remaining_s(5.0)) == ("4 of 10", None)
    run.counts.update(
        [AttemptStatus.PASSED, AttemptStatus.PASSED, AttemptStatus.FAILED, AttemptStatus.ERROR]
    )
    assert run.describe() == "8 of 10: 2 passed, 1 failed, 1 errored"
    assert run.remaining_s(8.0) == 4.0  # 2 s per attempt, 2 attempts are missing


def test_show_progress__a_log_has_one_line_per_attempt_and_one_for_the_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with show_progress(4) as show:
        show(attempt(AttemptStatus.PASSED, "one"))
        for name in ("two", "three", "four"):
            show(attempt(AttemptStatus.SKIPPED, name))
    assert capsys.readouterr().err.splitlines() == [
        "4 attempts",
        "1/4 [PASS] one",
        "3 attempts were not reached",
    ]


class WaitingLlm(WatchedLlm):
    """A model that waits before a retry."""

    def __init__(self, wait: RetryWait | None) -> None:
        super().__init__(LimitedLlm([]))
        self.wait = wait

    def current_wait(self) -> RetryWait | None:
        return self.wait


def test_wait_log__has_one_line_per_long_wait() -> None:
    llm = WaitingLlm(RetryWait("503", until=1004.0))
    log = WaitLog(RunningAttempts([RunningAttempt("a", 0.0, llm), RunningAttempt("b", 0.0)]))
    # 4 s are not worth a line.
    assert log.new_lines(1000.0) == []
    llm.wait = RetryWait("503", until=1012.0)
    [line] = log.new_lines(1004.0)
    assert line.startswith("a: turn 1")
    assert "waiting after 503 until" in line
    assert log.new_lines(1005.0) == []
    llm.wait = RetryWait("429", until=1030.0)
    assert len(log.new_lines(1013.0)) == 1


def test_show_progress__a_log_has_a_line_during_a_long_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed: list[str] = []
    has_waited = threading.Event()

    def note(line: str) -> None:
        printed.append(line)
        if "waiting after 503" in line:
            has_waited.set()

    monkeypatch.setattr(progress, "print_status", note)
    monkeypatch.setattr(progress, "POLL_S", 0.001)
    with show_progress(1), running_attempt("one"):
        announce_model(WaitingLlm(RetryWait("503", until=time.time() + 30)))
        assert has_waited.wait(10)
    assert len([line for line in printed if "waiting after 503" in line]) == 1


def test_show_progress__a_terminal_shows_running_attempts_and_each_finished_one_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "is_interactive", lambda _: True)
    with show_progress(2) as show, running_attempt("slow task"):
        view = "".join(_frame())
        # Markup of rich, and the sequence that clears a terminal.
        show(attempt(AttemptStatus.FAILED, "[red]x\x1b[2J"))
    printed = capsys.readouterr().err
    assert "slow task: 0 s" in view
    assert "0 of 2, 0:00 elapsed" in view
    assert printed.count("[red]x\\x1b[2J") == 1


def _frame() -> list[str]:
    """What the live view draws now."""
    from rich.console import Console

    from mosaico.harness.running_attempts import _BOARD

    board = _BOARD.get()
    assert board is not None
    console = Console(width=100)
    view = progress._LiveView(RunProgress(2), board, time.monotonic())
    return [segment.text for line in console.render_lines(view.render()) for segment in line]


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (
            ["/bin/bashkit-eval", "run", "my tasks.jsonl", "--save", "out"],
            "/bin/bashkit-eval run 'my tasks.jsonl' --save out --resume 'out/r 1.json'",
        ),
        (["ot-bench", "run", "b.yaml", "--resume", "old"], "ot-bench run b.yaml --resume 'out/r 1.json'"),
        (["ot-bench", "run", "--resume=old", "b.yaml"], "ot-bench run b.yaml --resume 'out/r 1.json'"),
    ],
)  # fmt: skip
def test_resume_command__is_the_command_of_this_run(arguments: list[str], command: str) -> None:
    assert resume_command(arguments, Path("out/r 1.json")) == command


def test_resume_command__program_of_the_path_is_named_and_any_other_keeps_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("on_path", "elsewhere"):
        program = tmp_path / folder / "ot-bench"
        program.parent.mkdir()
        program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "on_path"))
    monkeypatch.chdir(tmp_path)
    for typed, word in [
        (str(tmp_path / "on_path/ot-bench"), "ot-bench"),
        ("elsewhere/ot-bench", "elsewhere/ot-bench"),
        ("removed/ot-bench", "removed/ot-bench"),
    ]:
        assert resume_command([typed, "run"], Path("r")) == f"{word} run --resume r"


def test_resume_command__module_is_started_with_python() -> None:
    command = resume_command(["/x/app/cli.py", "run"], Path("r.json"), module="mosaico.cli")
    assert command == "python -m mosaico.cli run --resume r.json"
