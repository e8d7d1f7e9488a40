"""Decisions about runs: which state may follow which, and whether a run can be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from math import fsum

from app.core.errors import AppError, Conflict

MAX_RETRIES = 3


class RunStatus(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_final(self) -> bool:
        return self in FINAL


class TriggerType(StrEnum):
    MANUAL = "MANUAL"
    SCHEDULED = "SCHEDULED"
    EVENT = "EVENT"
    WEBHOOK = "WEBHOOK"


class Validity(StrEnum):
    """Whether the numbers of a run say something about the agent."""

    VALID = "VALID"
    INVALID = "INVALID"


FINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})
NEXT_STATUSES = {
    RunStatus.PENDING: {RunStatus.RUNNING, RunStatus.FAILED, RunStatus.CANCELLED},
    RunStatus.RUNNING: {RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED},
}
RETRYABLE = frozenset({RunStatus.FAILED, RunStatus.CANCELLED})


class IllegalTransition(Conflict):
    """A run cannot go from its state to that one; a final state never changes."""

    code = "illegal-transition"


class RunPurged(AppError):
    """The traces of this run and their values were purged; its aggregates and KPIs are still there."""

    code = "run-purged"
    status = 410
    exit_code = 66


def require_traces(run_id: str, purged_at: datetime | None) -> None:
    """Raise `RunPurged` when what a run measured, trace by trace, is gone."""
    if purged_at is not None:
        raise RunPurged(
            f"the traces of the run {run_id} were purged at {purged_at:%Y-%m-%dT%H:%M:%SZ};"
            " its aggregates (/metrics) and its KPIs stay. Start a new run to measure them again."
        )


def require_transition(run_id: str, now: RunStatus, then: RunStatus) -> None:
    """Raise `IllegalTransition` unless `then` may follow `now`."""
    if then not in NEXT_STATUSES.get(now, set()):
        raise IllegalTransition(
            f"the run {run_id} is {now}; a {now} run cannot become {then}."
            + (" It is final: start a new run instead." if now.is_final else "")
        )


def require_retryable(run_id: str, status: RunStatus, retry_count: int) -> None:
    """Raise `IllegalTransition` unless a new attempt may be made."""
    if status not in RETRYABLE:
        raise IllegalTransition(
            f"the run {run_id} is {status}; only FAILED and CANCELLED runs are retried."
            " Start a new run instead."
        )
    if retry_count >= MAX_RETRIES:
        raise IllegalTransition(
            f"the run {run_id} was retried {MAX_RETRIES} times already;"
            " mend the cause, then start a new run"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTally:
    """How the traces of a run fared.

    `covered`: neither lost nor without a text that a metric needs. `lost`: ended by
    infrastructure or a judge. `failed` of `asked` measurements of the other traces broke.
    """

    total: int
    covered: int
    lost: int
    measurements: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityVerdict:
    """Shares are between 0 and 1."""

    validity: Validity
    reasons: tuple[str, ...]
    coverage: float
    error_share: float


def assess_validity(
    tally: TraceTally, *, min_coverage: float, max_error_share: float
) -> ValidityVerdict:
    """Whether enough of a run was measured; no trace at all is never valid."""
    if tally.total == 0:
        return ValidityVerdict(
            validity=Validity.INVALID,
            reasons=("no trace was collected",),
            coverage=0.0,
            error_share=0.0,
        )
    coverage = tally.covered / tally.total
    broken = tally.failed / tally.measurements if tally.measurements else 0.0
    error_share = max(tally.lost / tally.total, broken)
    reasons = []
    if coverage < min_coverage:
        reasons.append(f"coverage is {coverage:.1%}, at least {min_coverage:.1%} is asked for")
    if error_share > max_error_share:
        reasons.append(
            f"{error_share:.1%} was lost to infrastructure, judge or metric errors,"
            f" at most {max_error_share:.1%} may be"
        )
    return ValidityVerdict(
        validity=Validity.INVALID if reasons else Validity.VALID,
        reasons=tuple(reasons),
        coverage=coverage,
        error_share=error_share,
    )


def add_reason(found: ValidityVerdict, reason: str | None) -> ValidityVerdict:
    """The same, and invalid for one more reason where there is one."""
    if reason is None:
        return found
    return replace(found, validity=Validity.INVALID, reasons=(*found.reasons, reason))


def judge_error_reason(
    judge: str, gold: Sequence[float], scores: Sequence[float | None], *, max_error: float
) -> str | None:
    """Why a judge is not to be trusted, by its scores of answers that people scored; None where it
    is. Without half of the scores nothing is known.
    """
    known = [
        score - wanted for score, wanted in zip(scores, gold, strict=True) if score is not None
    ]
    if 2 * len(known) < len(gold):
        return f"{judge} scored {len(known)} of {len(gold)} answers with gold scores only"
    error = fsum(map(abs, known)) / len(known)
    if error <= max_error:
        return None
    leaning = "kinder" if fsum(known) > 0 else "stricter"
    return (
        f"the judge drifted: {judge} is {leaning} than the gold scores of {len(gold)} answers, by"
        f" {error:.3g} in the mean, at most {max_error:g} may be"
    )
