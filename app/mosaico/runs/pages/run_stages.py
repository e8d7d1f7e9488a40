"""The steps of a run on its page."""

from typing import Any, NamedTuple

from mosaico.core.text import format_duration
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import RunStatus


class RunStage(NamedTuple):
    """A step of a run; `state` is done, now, bad, or empty."""

    name: str
    text: str
    state: str
    at: Any = None


def list_stages(run: BenchmarkRun) -> list[RunStage]:
    """The steps of a run with what is known of them; unknown times stay away."""
    status = RunStatus(run.status)
    is_running, is_done = status is RunStatus.RUNNING, status is RunStatus.COMPLETED
    is_collected = run.traces_total is not None
    collected = run.traces_total if is_collected else run.traces_collected
    took = ""
    if run.started_at and run.completed_at:
        took = f"in {format_duration(run.completed_at - run.started_at)} ·"
    waits = "now" if status is RunStatus.PENDING else "done"
    return [
        RunStage("Created", "", waits, run.created_at),
        RunStage("Started", "" if run.started_at else "waits for a worker",
                 "done" if run.started_at else "", run.started_at),
        RunStage("Collected", _collected_text(run, collected),
                 "done" if is_done or is_collected else "now" if is_running else ""),
        RunStage("Scored", f"{run.metrics_computed + run.metrics_reused:,} values"
                 if run.traces_processed else "",
                 "done" if is_done else "now" if is_running and is_collected else ""),
        RunStage(status.capitalize() if status.is_final else "Completed", took,
                 "done" if is_done else "bad" if status is RunStatus.FAILED else "", run.completed_at),
    ]  # fmt: skip


def _collected_text(run: BenchmarkRun, collected: int | None) -> str:
    if run.waiting_for and run.status == RunStatus.RUNNING:
        return f"waits for {run.waiting_for}"
    return f"{collected:,} traces" if collected else ""
