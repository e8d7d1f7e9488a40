"""Recorded runs tried again without a model: the same commands in a fresh sandbox."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter, ValidationError

from app.harness.bash.checking import CHECKS, CheckEvidence, split_check
from app.harness.bash.recordings import BadRecording
from app.harness.bash.sandbox import BASHKIT_VERSION, DEFAULT_LIMITS, Sandbox, SandboxLimits
from app.harness.bash.scoring import scored
from app.harness.bash.types import (
    AgentTrace,
    EvalReport,
    EvalResult,
    Judgement,
    ScoreResult,
    ToolCallResult,
)

_LIMITS: Final = TypeAdapter(SandboxLimits)


class Share(NamedTuple):
    """So many of so many."""

    same: int
    all: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCheck:
    """A check that says something else than when it was recorded.

    An unsteady one may do so by itself: what it asks for is also found in times and sizes.
    """

    task_id: str
    trial: int
    recorded: ScoreResult
    now: ScoreResult
    unsteady: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far two reports of the same attempts say the same; unsteady checks are left out."""

    tasks: Share
    checks: Share
    exit_codes: Share
    changed: tuple[ChangedCheck, ...]


class Replayed(NamedTuple):
    """A run as it is now, and how far it is what was recorded."""

    report: EvalReport
    agreement: Agreement


def replay(report: EvalReport) -> Replayed:
    """Execute the recorded commands anew, under the recorded limits, and check the new outcome.

    Raises: BadRecording when the recorded limits are none.
    """
    limits = _recorded_limits(report)
    again = [_replayed(each, limits) for each in report.results]
    return _compared(report, again, how="replay")


def rescore(report: EvalReport) -> Replayed:
    """Check the recorded calls again; files are those of a sandbox that ran them anew.

    Raises: BadRecording when the recorded limits are none.
    """
    limits = _recorded_limits(report)
    again = [_rescored(each, limits) for each in report.results]
    return _compared(report, again, how="rescore")


def execute(result: EvalResult, sandbox: Sandbox) -> list[ToolCallResult]:
    """Run the recorded commands of one attempt, in order, in this sandbox."""
    calls = result.trace.tool_calls if result.trace else ()
    return [sandbox.run(call.commands, timeout_ms=call.timeout_ms) for call in calls]


def agreement(before: Sequence[EvalResult], after: Sequence[EvalResult]) -> Agreement:
    """Compare the same attempts, in the same order; those without a score are left out."""
    pairs = [
        (old, new)
        for old, new in zip(before, after, strict=True)
        if old.score is not None and new.score is not None
    ]
    compared = [each for old, new in pairs for each in _checks(old, new)]
    steady = [each for each in compared if not each.unsteady]
    changed = tuple(each for each in compared if _differs(each))
    lost = {(each.task_id, each.trial) for each in changed if not each.unsteady}
    codes = [same for old, new in pairs for same in _same_codes(old, new)]
    return Agreement(
        tasks=Share(sum((old.task.id, old.trial) not in lost for old, _ in pairs), len(pairs)),
        checks=Share(sum(not _differs(each) for each in steady), len(steady)),
        exit_codes=Share(sum(codes), len(codes)),
        changed=changed,
    )


def _compared(report: EvalReport, again: Sequence[EvalResult], *, how: str) -> Replayed:
    settings = {**report.settings, "made_by": how, "bashkit": BASHKIT_VERSION}
    made = replace(report, results=tuple(again), settings=settings)
    return Replayed(made, agreement(report.results, again))


def _recorded_limits(report: EvalReport) -> SandboxLimits:
    """The limits of the sandbox when the run was made; the original recorded none."""
    found: Any = report.settings
    for name in ("limits", "task", "sandbox"):
        found = found.get(name) if isinstance(found, dict) else None
    try:
        return DEFAULT_LIMITS if found is None else _LIMITS.validate_python(found)
    except ValidationError:
        raise BadRecording(
            "the recorded limits of the sandbox (settings/limits/task/sandbox) are none",
            hint="name a file as `bashkit-eval run --save` wrote it",
        ) from None


def _replayed(result: EvalResult, limits: SandboxLimits) -> EvalResult:
    if result.score is None or result.trace is None:
        return result
    sandbox = Sandbox(result.task.files, limits)
    calls = execute(result, sandbox)
    trace = _with_calls(result.trace, calls)
    evidence = CheckEvidence(calls=calls, files=sandbox, judgements=_judgements(result))
    return scored(replace(result, trace=trace), evidence)


def _rescored(result: EvalResult, limits: SandboxLimits) -> EvalResult:
    if result.score is None or result.trace is None:
        return result
    sandbox = Sandbox(result.task.files, limits)
    execute(result, sandbox)
    evidence = CheckEvidence(
        calls=result.trace.tool_calls, files=sandbox, judgements=_judgements(result)
    )
    return scored(result, evidence)


def _with_calls(trace: AgentTrace, calls: Sequence[ToolCallResult]) -> AgentTrace:
    return replace(trace, tool_calls=tuple(calls), last_tool_response=calls[-1] if calls else None)


def _judgements(result: EvalResult) -> dict[str, Judgement]:
    """What the judge said stays said; asking it again would cost, and give another answer."""
    return {
        split_check(each.check).value: each.judgement
        for each in (result.score.results if result.score else ())
        if each.judgement is not None
    }


def _checks(old: EvalResult, new: EvalResult) -> Iterable[ChangedCheck]:
    assert old.score is not None
    assert new.score is not None
    for recorded, now in zip(old.score.results, new.score.results, strict=True):
        yield ChangedCheck(
            task_id=old.task.id,
            trial=old.trial,
            recorded=recorded,
            now=now,
            unsteady=is_unsteady(recorded.check),
        )


def is_unsteady(check: str) -> bool:
    """Whether a check may pass by accident, depending on when it is tried."""
    name, value = split_check(check)
    kind = CHECKS.find(name)
    return kind is not None and any(each.unsteady for each in kind.complaints(value))


def _differs(each: ChangedCheck) -> bool:
    return (each.recorded.passed, each.recorded.weight) != (each.now.passed, each.now.weight)


def _same_codes(old: EvalResult, new: EvalResult) -> Iterable[bool]:
    if old.trace is not None and new.trace is not None:
        pairs = zip(old.trace.tool_calls, new.trace.tool_calls, strict=True)
        yield from (before.exit_code == after.exit_code for before, after in pairs)
