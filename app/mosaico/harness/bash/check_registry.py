"""Checks of bash tasks: their registry, and how they score an attempt.

A check is one function in a file of `checks/`. Other distributions add checks through the entry
points `mosaico.evaluators`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple, Protocol

from mosaico.core.registry import LoadedPlugin, Registry
from mosaico.harness.bash.types import EvalResult, EvalTask, ScoreResult, TaskScore, ToolCallResult
from mosaico.harness.judge import JudgeScore
from mosaico.harness.results import AttemptOutcome

SHOWN: Final = 300  # characters of the exception of a check


class UnreadableFile(Exception):
    """The path does not lead to a readable file of the sandbox."""


class FileKind(StrEnum):
    """The kind of a path of the sandbox."""

    FILE = "file"
    DIRECTORY = "directory"


class SandboxFiles(Protocol):
    """The files of a sandbox after the task."""

    def kind(self, path: str) -> FileKind | None:
        """The kind of the path, links followed; None when nothing exists there."""
        ...

    def read(self, path: str) -> bytes:
        """The content of a file. Raises UnreadableFile."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckEvidence:
    """Everything a check can read: the calls in order, the files, and the scores of the judge.

    `judge_scores` are keyed by the text after `llm_judge:`; without a judge there are none.
    """

    calls: Sequence[ToolCallResult]
    files: SandboxFiles
    judge_scores: Mapping[str, JudgeScore] = field(default_factory=dict)


class CheckResult(NamedTuple):
    """Whether a check passed, and why. A `weight` replaces the weight in the dataset."""

    passed: bool
    detail: str
    weight: float | None = None
    judge_score: JudgeScore | None = None


class CheckWarning(NamedTuple):
    """A flaw of a check: a fatal one can never pass; an unstable one may pass or fail by chance,
    because times and sizes in its input change between runs.
    """

    text: str
    is_fatal: bool = False
    is_unstable: bool = False


def _no_warnings(_: str) -> Iterable[CheckWarning]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One kind of check.

    `evaluate` decides, given the text after the colon exactly as in the dataset; `warnings` lists
    the flaws of such a text for authors of datasets.
    """

    kind: ClassVar[str] = "check"

    summary: str
    evaluate: Callable[[str, CheckEvidence], CheckResult]
    warnings: Callable[[str], Iterable[CheckWarning]] = _no_warnings


CHECKS: Final[Registry[Check]] = Registry(
    "check",
    group="mosaico.evaluators",
    names=r"[a-z][a-z0-9_]*",
    item_type=Check,
)


class CheckText(NamedTuple):
    """A check as written in a dataset: its name, and the text after the first colon."""

    name: str
    value: str


def split_check(text: str) -> CheckText:
    """Split `name:value` at the first colon; the value may contain colons."""
    name, _, value = text.partition(":")
    return CheckText(name, value)


class CheckError(Exception):
    """A check raised an exception, so that its verdict is unknown."""


def score_attempt(result: EvalResult, evidence: CheckEvidence) -> EvalResult:
    """The attempt with its score; without one, and with the reason, when a check raised."""
    try:
        return replace(result, score=score_task(result.task, evidence))
    except CheckError as error:
        return replace(result, score=None, outcome=AttemptOutcome.JUDGE_ERROR, reason=str(error))


def score_task(task: EvalTask, evidence: CheckEvidence) -> TaskScore:
    """The score of a task. Raises CheckError."""
    results = tuple(
        run_check(expectation.check, expectation.weight, evidence)
        for expectation in task.expectations
    )
    return TaskScore(
        task_id=task.id,
        results=results,
        score=sum(check.weight for check in results if check.passed),
        # Not task.max_score(): a check may change its own weight, as llm_judge without a judge.
        max_score=sum(check.weight for check in results),
    )


def run_check(text: str, weight: float, evidence: CheckEvidence) -> ScoreResult:
    """The result of one check; an unknown check fails and keeps its weight. Raises CheckError."""
    name, value = split_check(text)
    check = CHECKS.find(name)
    try:
        result = (
            check.evaluate(value, evidence)
            if check
            else CheckResult(False, f"unknown check type: {name}")
        )
    except Exception as error:  # noqa: BLE001 - a plugin failed: an error of its task, not of the run
        reason = f"{type(error).__name__}: {error}"[:SHOWN]
        raise CheckError(f"the check {name} raised {reason}") from None
    return ScoreResult(
        check=text,
        passed=result.passed,
        detail=result.detail,
        weight=weight if result.weight is None else result.weight,
        judge_score=result.judge_score,
    )


def _ignore(_: LoadedPlugin) -> None:
    """Ignore a plugin that cannot be loaded; `mosaico plugins` lists it."""


def load_checks(warn: Callable[[LoadedPlugin], None] = _ignore) -> None:
    """Register the built-in checks and those of other distributions, once per process."""
    CHECKS.load("mosaico.harness.bash.checks", warn)
