"""What is known of a run while it goes on: kept in a file that is whole at any moment."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from app.core.errors import AppError
from app.harness.bash.recordings import write_report
from app.harness.bash.reports.markdown import markdown_report
from app.harness.bash.runner import Trial, skipped
from app.harness.bash.types import EvalReport, EvalResult
from app.harness.results import AttemptOutcome

SHOWN: Final = 5
SHARE_OF_TIME: Final = 20  # a run spends at most one part in so many on writing itself down


# What a run is measured with; time and concurrency may differ when it goes on.
CIRCUMSTANCES: Final = ("bashkit", "system_prompt", "turn_settings", "judge_model")


class OtherRun(AppError):
    """A run goes on only as it began: with its model, tasks and settings; or begin a new run."""

    code = "other-run"
    status = 409
    exit_code = 2


class Recorder:
    """Collects results, and writes them to `path` when there is one."""

    def __init__(self, report: EvalReport, trials: Sequence[Trial], path: Path | None) -> None:
        self._report = report
        self._trials = trials
        self._path = path
        self._found = {_key_of(each): each for each in report.results}
        self._next_write_s = 0.0

    def missing(self) -> list[Trial]:
        """The attempts that have no score yet, in their order."""
        return [
            trial
            for trial in self._trials
            if (found := self._found.get(_key(trial))) is None
            or found.outcome is not AttemptOutcome.SCORED
        ]

    def add(self, result: EvalResult) -> None:
        """Keep one result."""
        self._found[_key_of(result)] = result
        if time.monotonic() >= self._next_write_s:
            self.write()

    def report(self, reason: str = "not reached") -> EvalReport:
        """The run so far, in the order of the plan; what is missing is skipped for that reason."""
        results = tuple(
            self._found.get(_key(trial)) or skipped(trial, reason) for trial in self._trials
        )
        return replace(self._report, results=results)

    def write(self, reason: str = "not reached") -> None:
        """Write the run so far; without a file nothing happens."""
        if self._path is None:
            return
        started = time.monotonic()
        write_report(self.report(reason), self._path)
        ended = time.monotonic()
        self._next_write_s = ended + SHARE_OF_TIME * (ended - started)

    def close(self, reason: str) -> EvalReport:
        """The whole run, written with its Markdown beside it."""
        self.write(reason)
        whole = self.report(reason)
        if self._path is not None:
            self._path.with_suffix(".md").write_text(
                markdown_report(whole), encoding="utf-8", errors="replace"
            )
        return whole


def resumed(report: EvalReport, before: EvalReport, trials: Sequence[Trial]) -> EvalReport:
    """A run with the scores of an earlier one. Raises OtherRun where these would not belong to it,
    or would be lost.
    """
    _require_same(report, before)
    wanted = {_key(trial) for trial in trials}
    named = {(trial.task.id, trial.number) for trial in trials}
    scored = [each for each in before.results if each.outcome is AttemptOutcome.SCORED]
    lost = sorted({each.task.id for each in scored if (each.task.id, each.trial) not in named})
    if lost:
        raise OtherRun(
            f"that run has scores that are not asked for now: {', '.join(lost[:SHOWN])}",
            hint="name the same dataset, --category, --task and --trials, or begin a new run",
        )
    # A task that was edited meanwhile is tried again.
    kept = tuple(each for each in scored if _key_of(each) in wanted)
    return replace(report, timestamp=before.timestamp, results=kept)


def _require_same(report: EvalReport, before: EvalReport) -> None:
    if (before.provider, before.model) != (report.provider, report.model):
        raise OtherRun(
            f"that run was made with {before.title()}, not with {report.title()}",
            hint="name the same --provider and --model, or begin a new run",
        )
    changed: list[str] = [
        name
        for name in CIRCUMSTANCES
        if name in before.settings and before.settings[name] != report.settings.get(name)
    ]
    if before.max_turns != report.max_turns:
        changed.append("max_turns")
    if changed:
        raise OtherRun(
            f"that run was made under other circumstances: {', '.join(changed)} differ",
            hint="give the same options, or begin a new run",
        )


Key = tuple[str, int]


def _key(trial: Trial) -> Key:
    return trial.task.content_hash(), trial.number


def _key_of(result: EvalResult) -> Key:
    return result.task.content_hash(), result.trial
