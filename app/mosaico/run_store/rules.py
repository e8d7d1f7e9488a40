"""Decisions about runs: allowed state transitions, and whether the values of a run are valid."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from math import fsum

from mosaico.core.errors import AppError, Conflict

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
    """The validity of a run: whether enough traces were measured for its values to describe the
    agent.
    """

    VALID = "VALID"
    INVALID = "INVALID"


class BaselineHold(StrEnum):
    """The reason why a run is not a baseline of later runs. INCOMPLETE: what decides has values of too few items."""

    REGRESSED = "REGRESSED"
    INCOMPLETE = "INCOMPLETE"
    INCIDENT = "INCIDENT"


FINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})
IN_PROGRESS = tuple(status for status in RunStatus if status not in FINAL)
NEXT_STATUSES = {
    RunStatus.PENDING: {RunStatus.RUNNING, RunStatus.FAILED, RunStatus.CANCELLED},
    RunStatus.RUNNING: {RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED},
}
RETRYABLE = frozenset({RunStatus.FAILED, RunStatus.CANCELLED})


class IllegalTransition(Conflict):
    """The run cannot change to that state; a final state never changes."""


class RunPurged(AppError):
    """The traces of this run and their values were purged; its aggregates and KPIs remain."""

    status = 410
    exit_code = 66


def require_traces(run_id: str, purged_at: datetime | None) -> None:
    """Raise `RunPurged` when the traces of a run were purged."""
    if purged_at is not None:
        raise RunPurged(
            f"the traces of the run {run_id} were purged at {purged_at:%Y-%m-%dT%H:%M:%SZ};"
            " its aggregates (/metrics) and KPIs remain. Start a new run to measure again."
        )


class TextsRemoved(AppError):
    """The texts of this run were removed (`keepTextDays`); its values, aggregates and KPIs remain."""

    status = 410
    exit_code = 66


def require_texts(run_id: str, texts_removed_at: datetime | None) -> None:
    """Raise `TextsRemoved` when the texts of a run were removed."""
    if texts_removed_at is not None:
        raise TextsRemoved(
            f"the texts of the run {run_id} were removed at {texts_removed_at:%Y-%m-%dT%H:%M:%SZ}, as keepTextDays of its"
            " benchmark asks, and cannot be measured again; its values remain. Start a new run."
        )


def require_transition(run_id: str, status: RunStatus, target: RunStatus) -> None:
    """Raise `IllegalTransition` unless `target` may follow `status`."""
    if target not in NEXT_STATUSES.get(status, set()):
        raise IllegalTransition(
            f"the run {run_id} is {status}; a {status} run cannot become {target}."
            + (" It is final: start a new run instead." if status.is_final else "")
        )


def require_retryable(run_id: str, status: RunStatus, retry_count: int) -> None:
    """Raise `IllegalTransition` unless the run may be retried."""
    if status not in RETRYABLE:
        raise IllegalTransition(
            f"the run {run_id} is {status}; only FAILED and CANCELLED runs can be retried."
            " Start a new run instead."
        )
    if retry_count >= MAX_RETRIES:
        raise IllegalTransition(
            f"the run {run_id} was already retried {MAX_RETRIES} times;"
            " fix the cause, then start a new run"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTally:
    """Counts of the traces of a run.

    `errored` traces ended with an infrastructure or judge error. `covered` traces are not errored and have
    every text that a metric needs. `failed` counts failures among the `measurements`, which are one
    for each metric and each trace that is not errored.
    """

    total: int
    covered: int
    errored: int
    measurements: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityVerdict:
    """The validity of a run with its reasons; coverage and error share are between 0 and 1."""

    validity: Validity
    reasons: tuple[str, ...]
    coverage: float
    error_share: float


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def assess_validity(
    tally: TraceTally, *, min_coverage: float, max_error_share: float, absence: str | None = None
) -> ValidityVerdict:
    """Return whether enough of a run was measured; a run without traces is invalid. `absence`
    describes the missing items.
    """
    if tally.total == 0:
        return ValidityVerdict(
            validity=Validity.INVALID,
            reasons=("no trace was collected",),
            coverage=0.0,
            error_share=0.0,
        )
    coverage = tally.covered / tally.total
    broken = tally.failed / tally.measurements if tally.measurements else 0.0
    # The larger of both: one broken metric must not be hidden by many healthy traces, nor the
    # reverse.
    error_share = max(tally.errored / tally.total, broken)
    reasons = []
    if coverage < min_coverage:
        cause = f": {absence}" if absence else ""
        reasons.append(
            f"coverage is {_percent(coverage)}, below the required {_percent(min_coverage)}{cause}"
        )
    if error_share > max_error_share:
        reasons.append(
            f"{_percent(error_share)} of the values are missing because of infrastructure, judge or "
            f"metric errors, above the allowed {_percent(max_error_share)}"
        )
    return ValidityVerdict(
        validity=Validity.INVALID if reasons else Validity.VALID,
        reasons=tuple(reasons),
        coverage=coverage,
        error_share=error_share,
    )


def add_reason(verdict: ValidityVerdict, reason: str | None) -> ValidityVerdict:
    """The verdict, made invalid by one more reason; unchanged without a reason."""
    if reason is None:
        return verdict
    return replace(verdict, validity=Validity.INVALID, reasons=(*verdict.reasons, reason))


def judge_error_reason(
    judge: str, gold: Sequence[float], scores: Sequence[float | None], *, max_error: float
) -> str | None:
    """Return the reason why a judge cannot be trusted, from its scores of answers with gold scores;
    None when its mean absolute error is within `max_error`. At least half of the answers must have
    a score.
    """
    errors = [
        score - gold_score
        for score, gold_score in zip(scores, gold, strict=True)
        if score is not None
    ]
    # Few scores say nothing about the judge, however small their error is.
    if 2 * len(errors) < len(gold):
        return f"{judge} scored only {len(errors)} of {len(gold)} answers with gold scores"
    mean_error = fsum(map(abs, errors)) / len(errors)
    if mean_error <= max_error:
        return None
    bias = "higher" if fsum(errors) > 0 else "lower"
    return (
        f"the judge is not calibrated: {judge} scores {bias} than the gold scores of {len(gold)}"
        f" answers, with a mean error of {mean_error:.3g} (limit {max_error:g})"
    )
