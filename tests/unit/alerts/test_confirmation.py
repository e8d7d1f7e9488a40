"""Repeating a suspicious run before it pages."""

import pytest

from mosaico.alerts.evaluation.incident_rules import SUSPICIOUS, advance_series, needs_confirmation
from mosaico.alerts.evaluation.series_evidence import PagePolicy
from mosaico.kpis.series_types import RunsEvidence, SeriesEvent, SeriesState, SeriesStatus
from mosaico.statistics.sequential import RunLevel

POLICY = PagePolicy(false_pages_per_month=0.25, prior_sd=0.03)
LEVELS = {
    run: RunLevel(run, 0.8 + 0.02 * (run % 2), 0.0009 if run else None, 40.0) for run in range(20)
}


def suspicious_run() -> tuple[SeriesState, dict[int, RunLevel]]:
    """The state after twenty ordinary runs, and their levels with a run that is ten points lower."""
    state = SeriesState()
    for run in LEVELS:
        state = advance_series(state, LEVELS, run, POLICY).state
    return state, {**LEVELS, 20: RunLevel(20, 0.7, 0.0009, 40.0)}


@pytest.mark.parametrize(
    ("z", "status", "event", "expected"),
    [
        (2.1, SeriesStatus.OK, None, False),
        (2.4, SeriesStatus.OK, None, True),
        (9.0, SeriesStatus.FIRING, SeriesEvent.OPENED, True),
        (9.0, SeriesStatus.FIRING, None, False),
        (9.0, SeriesStatus.FIRING, SeriesEvent.WORSE, False),
        (None, SeriesStatus.WARMUP, None, False),
    ],
)
def test_needs_confirmation__suspicious_runs_outside_of_incidents(
    z: float | None, status: SeriesStatus, event: SeriesEvent | None, expected: bool
) -> None:
    assert pytest.approx(2.36, abs=0.01) == SUSPICIOUS * 3.06
    evidence = RunsEvidence(status=status, event=event, z=z, limit=3.06)
    assert needs_confirmation(evidence) is expected


def test_joint_evidence__decides_the_run() -> None:
    state, levels = suspicious_run()
    # The extra trials show that it was chance, or that it was not.
    # With two extra trials a run has three times the traces, and a third of the noise of its items.
    chance = {**levels, 20: RunLevel(20, 0.79, 0.0003, 120.0)}
    assert advance_series(state, chance, 20, POLICY).evidence.event is None
    true = {**levels, 20: RunLevel(20, 0.7, 0.0003, 120.0)}
    alone = advance_series(state, levels, 20, POLICY).evidence
    joint = advance_series(state, true, 20, POLICY).evidence
    assert joint.event is SeriesEvent.OPENED
    assert joint.z is not None
    assert alone.z is not None
    assert joint.z > alone.z
