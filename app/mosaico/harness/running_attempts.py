"""The attempts in progress: which task, which turn, and what each is waiting for.

A run announces its attempts here, and a progress display reads them. The board is a context variable,
because the display is several calls above the attempts and most runs have none.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from mosaico.harness.watched_llm import WatchedLlm


@dataclass(slots=True)
class RunningAttempt:
    """An attempt in progress; `llm` is None until the first request to its model. `started_s` is
    monotonic.
    """

    label: str
    started_s: float
    llm: WatchedLlm | None = None


@dataclass(slots=True)
class RunningAttempts:
    """The attempts in progress, in the order of their start."""

    attempts: list[RunningAttempt] = field(default_factory=list)


_BOARD: Final[ContextVar[RunningAttempts | None]] = ContextVar("running_attempts", default=None)
_CURRENT: Final[ContextVar[RunningAttempt | None]] = ContextVar("running_attempt", default=None)


@contextmanager
def collect_running_attempts() -> Iterator[RunningAttempts]:
    """The board of the attempts that run in this block."""
    board = RunningAttempts()
    token = _BOARD.set(board)
    try:
        yield board
    finally:
        _BOARD.reset(token)


@contextmanager
def running_attempt(label: str) -> Iterator[None]:
    """Announce an attempt for the time of this block; without a board this does nothing."""
    board = _BOARD.get()
    if board is None:
        yield
        return
    attempt = RunningAttempt(label, time.monotonic())
    board.attempts.append(attempt)
    token = _CURRENT.set(attempt)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        board.attempts.remove(attempt)


def announce_model(llm: WatchedLlm) -> None:
    """Let the display follow the requests of the current attempt."""
    attempt = _CURRENT.get()
    if attempt is not None:
        attempt.llm = llm


def describe_activity(attempt: RunningAttempt, now_s: float) -> str:
    """`TASK: turn 3, 4210 tokens, 12 s`, or what the attempt is waiting for.

    `now_s` is the monotonic time.
    """
    facts = [f"{now_s - attempt.started_s:.0f} s"]
    llm = attempt.llm
    if llm is not None:
        tokens = sum(
            (request.input_tokens or 0) + (request.output_tokens or 0) for request in llm.requests
        )
        facts = [f"turn {len(llm.requests) + 1}", f"{tokens} tokens", *facts]
        wait = llm.current_wait()
        if wait is not None:
            until = datetime.fromtimestamp(wait.until).astimezone()
            facts.append(f"waiting after {wait.cause} until {until:%H:%M:%S}")
    return f"{attempt.label}: {', '.join(facts)}"
