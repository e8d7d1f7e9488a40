"""Holds on regressed and incomplete runs, and their acceptance: a bad level becomes the baseline only on purpose."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from mosaico.core.batches import batched
from mosaico.core.errors import Conflict
from mosaico.kpis.verdict_types import RunVerdict
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.queries import get_run
from mosaico.run_store.rules import BaselineHold, RunStatus, Validity
from mosaico.statistics.verdict_rules import Verdict

HELD_RUNS: Final = 50


class NothingToAccept(Conflict):
    """Only a completed, valid run that is held back as a baseline, or the level of an open incident, can be accepted."""


def hold_back(session: Session, run: BenchmarkRun, verdict: RunVerdict) -> None:
    """Hold back a run that regressed, so that no later run is compared with the bad level, and one that lacks values:
    the next complete run could not be compared with it.

    A run over an accepted source run takes over the acceptance instead.
    """
    accepted = select(BenchmarkRun).where(
        _is_same_source_run(run), BenchmarkRun.accepted_at.is_not(None)
    )
    earlier = session.scalars(accepted.limit(1)).one_or_none()
    if earlier is not None:
        _copy_acceptance(run, earlier)
    elif verdict.verdict is Verdict.REGRESSED:
        run.baseline_hold = BaselineHold.REGRESSED
    elif verdict.incomplete:
        run.baseline_hold = BaselineHold.INCOMPLETE


def hold_incident(session: Session, run_seqs: Collection[int]) -> None:
    """Hold back the runs of an incident, unless their level is accepted."""
    _set_hold(
        session,
        run_seqs,
        BaselineHold.INCIDENT,
        BenchmarkRun.baseline_hold.is_(None),
        BenchmarkRun.accepted_at.is_(None),
    )


def release_incident(session: Session, run_seqs: Collection[int], *, is_noise: bool) -> None:
    """Let runs that were held back by an incident be baselines again; those of noise also when they
    regressed.
    """
    holds = [BaselineHold.INCIDENT, *([BaselineHold.REGRESSED] if is_noise else [])]
    _set_hold(session, run_seqs, None, BenchmarkRun.baseline_hold.in_(holds))


def _set_hold(
    session: Session,
    run_seqs: Collection[int],
    hold: BaselineHold | None,
    *conditions: ColumnElement[bool],
) -> None:
    # A run is in a dozen indexes. The runs of all batches are locked until the transaction ends, in the order
    # of their numbers, so that two such transactions wait for each other instead of deadlocking.
    for batch in batched(sorted(run_seqs), HELD_RUNS):
        runs = update(BenchmarkRun).where(BenchmarkRun.seq.in_(batch), *conditions)
        session.execute(runs.values(baseline_hold=hold))


def accept_level(
    session: Session, run_id: str, *, by: str, note: str | None, now: datetime
) -> BenchmarkRun:
    """Accept the level of a run: it, and all runs over its source run, can be baselines again.

    A run that is accepted already stays as it is, with its first note.
    Raises: `NothingToAccept` when no run over its source run is held back.
    """
    origin = get_run(session, run_id)
    # A run that was not collected has no source run that others could share.
    _require_usable(origin)
    # All runs over one source run are locked in one order, so that two acceptances wait.
    same_source_runs = list(
        session.scalars(
            select(BenchmarkRun)
            .where(_is_same_source_run(origin))
            .order_by(BenchmarkRun.seq)
            .with_for_update(key_share=True)
            .execution_options(populate_existing=True)
        )
    )
    run = next(locked for locked in same_source_runs if locked.id == run_id)
    if run.accepted_at is not None:
        return run
    _require_held(run, same_source_runs)
    run.accepted_at, run.accepted_by, run.acceptance_note = now, by, note
    for same_source_run in same_source_runs:
        if same_source_run.status == RunStatus.COMPLETED:
            _copy_acceptance(same_source_run, run)
    session.flush()
    return run


def _is_same_source_run(run: BenchmarkRun) -> ColumnElement[bool]:
    return BenchmarkRun.source_seq == run.source_seq


def _copy_acceptance(run: BenchmarkRun, accepted: BenchmarkRun) -> None:
    run.baseline_hold = None
    run.accepted_at, run.accepted_by = accepted.accepted_at, accepted.accepted_by
    run.acceptance_note = accepted.acceptance_note


def _require_usable(run: BenchmarkRun) -> None:
    if run.status != RunStatus.COMPLETED:
        raise NothingToAccept(
            f"the run {run.id} is {run.status}; only a COMPLETED run can be accepted"
        )
    if run.validity != Validity.VALID:
        raise NothingToAccept(
            f"the run {run.id} is not valid, so it cannot be a baseline; fix the cause and start "
            "a new run"
        )


def _require_held(run: BenchmarkRun, same_source_runs: Sequence[BenchmarkRun]) -> None:
    if all(same_source_run.baseline_hold is None for same_source_run in same_source_runs):
        raise NothingToAccept(
            f"the run {run.id} did not regress, so later runs are compared with it without an "
            "acceptance"
        )
