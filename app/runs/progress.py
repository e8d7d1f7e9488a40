"""Following a run from outside: what is said about it, and when."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from app.core.console.api_client import ApiClient, ServiceUnreachable
from app.core.console.table import format_cell
from app.core.console.terminal import EXIT_UNSUCCESSFUL
from app.core.errors import Unavailable
from app.results.rules import RunStatus, Validity

JSON = dict[str, Any]

STEP_PERCENT = 10
SILENCE_S = 30.0
PATIENCE_S = 60.0
RECONNECT_S = 0.5


class ProgressReporter:
    """When a line about a run is due where lines stay: at the start, at every tenth of the traces,
    and after 30 s of silence.
    """

    def __init__(self) -> None:
        self._told: tuple[str, int] | None = None
        self._told_at = 0.0

    def is_due(self, run: JSON, now_s: float) -> bool:
        stage = (run["status"], (percent(run) or 0) // STEP_PERCENT)
        due = stage != self._told or now_s - self._told_at >= SILENCE_S
        if due:
            self._told, self._told_at = stage, now_s
        return due


def percent(run: JSON) -> int | None:
    """How much of the run is measured; None while the number of its traces is not known."""
    total = run["tracesTotal"]
    return 100 * int(run["tracesProcessed"]) // int(total) if total else None


def describe_run(run: JSON) -> str:
    """One line about a run: where it stands, or how it ended and why."""
    if run["status"] == RunStatus.PENDING:
        return "PENDING waits for a worker"
    if not RunStatus(run["status"]).is_final:
        share = percent(run)
        if share is None:
            return f"{run['status']} collecting traces"
        return (
            f"{run['status']} {share} % ({run['tracesProcessed']} of {run['tracesTotal']} traces)"
        )
    parts = [run["status"]]
    if run["validity"]:
        parts.append(run["validity"])
    parts.append(f"{run['tracesProcessed']} traces")
    seconds = duration_s(run)
    if seconds is not None:
        parts.append(f"in {seconds:.1f} s")
    reasons = [*(run["validityReasons"] or []), run["errorMessage"] or ""]
    why = "; ".join(format_cell(reason) for reason in reasons if reason)
    return " ".join(parts) + (f": {why}" if why else "")


def duration_s(run: JSON) -> float | None:
    """Seconds from the start of a run to its end; None before."""
    if not (run["startedAt"] and run["completedAt"]):
        return None
    started, ended = (datetime.fromisoformat(run[name]) for name in ("startedAt", "completedAt"))
    return (ended - started).total_seconds()


def run_exit_code(run: JSON) -> int:
    """0 when the run completed and its numbers can be trusted, 3 otherwise."""
    trusted = run["status"] == RunStatus.COMPLETED and run["validity"] == Validity.VALID
    return 0 if trusted else EXIT_UNSUCCESSFUL


def follow_run(
    api: ApiClient,
    path: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[JSON]:
    """The run whenever it changes or the service gives a sign of life, until it has ended.

    A service that goes away while it is watched is waited for, up to a minute.
    Raises: `ServiceUnreachable` or `Unavailable` after that, or at once when it was never there.
    """
    run: JSON | None = None
    last_id: str | None = None
    heard_at = clock()
    while run is None or not RunStatus(run["status"]).is_final:
        try:
            for event in api.events(f"{path}/events", last_id):
                heard_at, last_id = clock(), event.id or last_id
                run = event.data or run
                if run is not None:
                    yield run
        except (ServiceUnreachable, Unavailable):
            if run is None or clock() - heard_at > PATIENCE_S:
                raise
        if run is None or not RunStatus(run["status"]).is_final:
            sleep(RECONNECT_S)
