"""The results of a run in progress: merged with those of a resumed run, kept in a journal."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from mosaico.core.console.files import write_text
from mosaico.harness.bash.attempt_runner import Trial
from mosaico.harness.bash.report_view import render
from mosaico.harness.bash.result_file import merge_results, write_report
from mosaico.harness.bash.types import EvalReport, EvalResult
from mosaico.harness.result_file import IncompatibleRun, RunJournal
from mosaico.harness.results import AttemptOutcome

SHOWN: Final = 5
NOT_REACHED: Final = "not reached"

# Settings that change what a score means. Time limits and concurrency may differ on resume.
RESUME_SETTINGS: Final = ("bashkit", "system_prompt", "turn_settings", "judge_model", "tool_chars")


class Recorder:
    """Collects the results of a run; with a path, also in its journal and result file."""

    def __init__(self, report: EvalReport, trials: Sequence[Trial], path: Path | None) -> None:
        self._report = report
        self._trials = trials
        self.path = path
        self._results = list(report.results)
        self._journal = RunJournal(path, self.report(NOT_REACHED)) if path is not None else None

    @property
    def planned(self) -> int:
        """The number of attempts of the run, those of a resumed run included."""
        return len(self._trials)

    def missing(self) -> list[Trial]:
        """The attempts without a score, in planned order."""
        scored = {result.key for result in self._results if result.outcome is AttemptOutcome.SCORED}
        return [trial for trial in self._trials if trial.key not in scored]

    def add(self, result: EvalResult) -> None:
        """Record one result; it replaces an earlier result of the same attempt."""
        self._results.append(result)
        if self._journal is not None:
            self._journal.add(asdict(result))

    def report(self, reason: str) -> EvalReport:
        """The run so far in planned order; missing attempts are skipped for this reason."""
        planned = [trial.skipped(reason) for trial in self._trials]
        return replace(self._report, results=tuple(merge_results(planned, self._results)))

    def finish(self, reason: str) -> EvalReport:
        """The report, written to the result file with its Markdown next to it."""
        report = self.report(reason)
        if self.path is not None and self._journal is not None:
            write_report(report, self.path)
            write_text(self.path.with_suffix(".md"), render(report, "markdown"))
            self._journal.discard()
        return report

    def close(self) -> None:
        """Keep the journal of a run that failed, so that it can be resumed."""
        if self._journal is not None:
            self._journal.close()


def resume_report(report: EvalReport, earlier: EvalReport, trials: Sequence[Trial]) -> EvalReport:
    """A new report with the scores of an earlier run.

    Raises: IncompatibleRun when these scores would not be comparable or would be lost.
    """
    _require_compatible(report, earlier)
    named = {(trial.task.id, trial.number) for trial in trials}
    scored = [result for result in earlier.results if result.outcome is AttemptOutcome.SCORED]
    lost_tasks = sorted(
        {result.task.id for result in scored if (result.task.id, result.trial) not in named}
    )
    if lost_tasks:
        raise IncompatibleRun(
            f"the earlier run has scores of tasks that are not selected: {', '.join(lost_tasks[:SHOWN])}",
            hint="use the same dataset, --category, --task and --trials, or start a new run",
        )
    # The key holds the hash of the task: a task that was edited since then runs again.
    planned = {trial.key for trial in trials}
    kept_results = tuple(result for result in scored if result.key in planned)
    return replace(report, timestamp=earlier.timestamp, results=kept_results)


def _require_compatible(report: EvalReport, earlier: EvalReport) -> None:
    if (earlier.provider, earlier.model) != (report.provider, report.model):
        raise IncompatibleRun(
            f"the earlier run used {earlier.title()}, not {report.title()}",
            hint="use the same --provider and --model, or start a new run",
        )
    changed: list[str] = [
        name
        for name in RESUME_SETTINGS
        if name in earlier.settings and earlier.settings[name] != report.settings.get(name)
    ]
    if earlier.max_turns != report.max_turns:
        changed.append("max_turns")
    if changed:
        raise IncompatibleRun(
            f"the earlier run used other settings: {', '.join(changed)}",
            hint="use the same options, or start a new run",
        )
