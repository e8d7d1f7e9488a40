"""Ended runs, one a night, and the values that a rule watches in them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from mosaico.alerts.evaluation.rule_history import ValueHistory
from mosaico.alerts.evaluation.watched_values import Measurement
from mosaico.alerts.rules import ValueSpec
from mosaico.run_store.run_history import PastRun
from mosaico.statistics.anomaly import RunPoint

NIGHT = datetime(2026, 11, 22, 2, tzinfo=UTC)


def past_run(seq: int, *, status: str = "COMPLETED", validity: str | None = "VALID") -> PastRun:
    """A run of the night `seq` with data of its own."""
    at = NIGHT + timedelta(days=seq)
    return PastRun(seq, f"run-{seq}", status, validity, "print", at, 10, night=seq)


def measurement_of(value: float | None) -> Measurement:
    """The value of a run; None: it has none."""
    point = None if value is None else RunPoint(value=value)
    return Measurement(spec=ValueSpec(name="quality"), point=point, reason="undefined")


def value_history(runs: Sequence[PastRun], measurements: Mapping[int, Measurement]) -> ValueHistory:
    """The values of some runs, without levels."""
    return ValueHistory(name="quality", runs=runs, measurements=measurements)
