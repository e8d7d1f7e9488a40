"""Replays recorded runs without a model: the same commands in new sandboxes, scored again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter, ValidationError

from mosaico.harness.bash.check_registry import CHECKS, CheckEvidence, score_attempt, split_check
from mosaico.harness.bash.sandbox import BASHKIT_VERSION, DEFAULT_LIMITS, Sandbox, SandboxLimits
from mosaico.harness.bash.types import (
    AgentTrace,
    EvalReport,
    EvalResult,
    ScoreResult,
    ToolCallResult,
)
from mosaico.harness.judge import JudgeScore
from mosaico.harness.result_file import InvalidResultFile

_LIMITS: Final = TypeAdapter(SandboxLimits)


class AgreementCount(NamedTuple):
    """The number of results that agree, and of all."""

    same: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCheck:
    """A check whose result differs from the recorded one.

    An unstable check may differ by chance: it also matches times and sizes.
    """

    task_id: str
    trial: int
    recorded: ScoreResult
    replayed: ScoreResult
    is_unstable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAgreement:
    """How far two reports of the same attempts agree; unstable checks are not counted."""

    tasks: AgreementCount
    checks: AgreementCount
    exit_codes: AgreementCount
    changed: tuple[ChangedCheck, ...]


class ReplayedRun(NamedTuple):
    """The report of a replay, and its agreement with the recorded run."""

    report: EvalReport
    agreement: ReplayAgreement


def replay(report: EvalReport) -> ReplayedRun:
    """Run the recorded commands again, under the recorded limits, and score the new outcome.

    Raises: InvalidResultFile when the recorded limits are invalid.
    """
    limits = _recorded_limits(report)
    results = [_replay_attempt(result, limits) for result in report.results]
    return _compare_with_recorded(report, results, made_by="replay")


def rescore(report: EvalReport) -> ReplayedRun:
    """Score the recorded calls again, with the files of a sandbox that replayed them.

    Raises: InvalidResultFile when the recorded limits are invalid.
    """
    limits = _recorded_limits(report)
    results = [_rescore_attempt(result, limits) for result in report.results]
    return _compare_with_recorded(report, results, made_by="rescore")


def execute(result: EvalResult, sandbox: Sandbox) -> list[ToolCallResult]:
    """Run the recorded commands of one attempt in order; a call that was not run stays as it is."""
    calls = result.trace.tool_calls if result.trace else ()
    return [
        sandbox.run(call.commands, timeout_ms=call.timeout_ms) if call.ran else call
        for call in calls
    ]


def agreement(recorded: Sequence[EvalResult], replayed: Sequence[EvalResult]) -> ReplayAgreement:
    """Compare the same attempts in the same order; attempts without a score are not counted."""
    pairs = [
        (old, new)
        for old, new in zip(recorded, replayed, strict=True)
        if old.score is not None and new.score is not None
    ]
    checks = [check for old, new in pairs for check in _check_pairs(old, new)]
    stable = [check for check in checks if not check.is_unstable]
    changed = tuple(check for check in checks if _differs(check))
    changed_attempts = {(check.task_id, check.trial) for check in changed if not check.is_unstable}
    exit_codes = [same for old, new in pairs for same in _same_exit_codes(old, new)]
    return ReplayAgreement(
        tasks=AgreementCount(
            sum((old.task.id, old.trial) not in changed_attempts for old, _ in pairs), len(pairs)
        ),
        checks=AgreementCount(sum(not _differs(check) for check in stable), len(stable)),
        exit_codes=AgreementCount(sum(exit_codes), len(exit_codes)),
        changed=changed,
    )


def is_unstable(check_text: str) -> bool:
    """Return whether a check may pass or fail by chance, depending on the time of the run."""
    name, value = split_check(check_text)
    check = CHECKS.find(name)
    return check is not None and any(warning.is_unstable for warning in check.warnings(value))


def _compare_with_recorded(
    report: EvalReport, results: Sequence[EvalResult], *, made_by: str
) -> ReplayedRun:
    settings = {**report.settings, "made_by": made_by, "bashkit": BASHKIT_VERSION}
    replayed = replace(report, results=tuple(results), settings=settings)
    return ReplayedRun(replayed, agreement(report.results, results))


def _recorded_limits(report: EvalReport) -> SandboxLimits:
    """The sandbox limits of the recorded run; the original evaluation did not record them."""
    # Step by step, since the report may come from another program, with anything at these places.
    limits: Any = report.settings
    for name in ("limits", "task", "sandbox"):
        limits = limits.get(name) if isinstance(limits, dict) else None
    try:
        return DEFAULT_LIMITS if limits is None else _LIMITS.validate_python(limits)
    except ValidationError:
        raise InvalidResultFile(
            "the recorded limits of the sandbox (settings/limits/task/sandbox) are invalid",
            hint="name a file that `bashkit-eval run --save` wrote",
        ) from None


def _replay_attempt(result: EvalResult, limits: SandboxLimits) -> EvalResult:
    if result.score is None or result.trace is None:
        return result
    sandbox = Sandbox(result.task.files, limits)
    calls = execute(result, sandbox)
    evidence = CheckEvidence(calls=calls, files=sandbox, judge_scores=_judge_scores(result))
    return score_attempt(replace(result, trace=_with_calls(result.trace, calls)), evidence)


def _rescore_attempt(result: EvalResult, limits: SandboxLimits) -> EvalResult:
    if result.score is None or result.trace is None:
        return result
    sandbox = Sandbox(result.task.files, limits)
    # Only for the files that it leaves behind, which a report does not hold.
    execute(result, sandbox)
    evidence = CheckEvidence(
        calls=result.trace.tool_calls, files=sandbox, judge_scores=_judge_scores(result)
    )
    return score_attempt(result, evidence)


def _with_calls(trace: AgentTrace, calls: Sequence[ToolCallResult]) -> AgentTrace:
    return replace(trace, tool_calls=tuple(calls), last_tool_response=calls[-1] if calls else None)


def _judge_scores(result: EvalResult) -> dict[str, JudgeScore]:
    """The recorded scores of the judge: asking the judge again would cost, and answer differently."""
    checks = result.score.results if result.score else ()
    return {
        split_check(check.check).value: check.judge_score
        for check in checks
        if check.judge_score is not None
    }


def _check_pairs(old: EvalResult, new: EvalResult) -> Iterable[ChangedCheck]:
    assert old.score is not None
    assert new.score is not None
    for recorded, replayed in zip(old.score.results, new.score.results, strict=True):
        yield ChangedCheck(
            task_id=old.task.id,
            trial=old.trial,
            recorded=recorded,
            replayed=replayed,
            is_unstable=is_unstable(recorded.check),
        )


def _differs(check: ChangedCheck) -> bool:
    recorded, replayed = check.recorded, check.replayed
    return (recorded.passed, recorded.weight) != (replayed.passed, replayed.weight)


def _same_exit_codes(old: EvalResult, new: EvalResult) -> Iterable[bool]:
    if old.trace is not None and new.trace is not None:
        pairs = zip(old.trace.tool_calls, new.trace.tool_calls, strict=True)
        yield from (recorded.exit_code == replayed.exit_code for recorded, replayed in pairs)
