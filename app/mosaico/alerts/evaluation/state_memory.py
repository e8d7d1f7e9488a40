"""The memory of a rule as it is stored in `alert_states`."""

from mosaico.alerts.evaluation.rule_memory import Memory, bound_spans
from mosaico.alerts.models import AlertState
from mosaico.alerts.rules import AlertStatus, RuleState, RunSpan
from mosaico.kpis.series_types import SeriesState


def memory_of(row: AlertState) -> Memory:
    """What a rule remembers after the run of its state."""
    return Memory(
        run_seq=row.run_seq,
        run_id=row.run_id,
        state=RuleState(
            status=AlertStatus(row.state),
            open=row.is_open,
            breaches=row.breaches,
            clears=row.clears,
            fired_at=row.fired_at,
        ),
        series=row.series or SeriesState(),
        excluded=excluded_of(row),
        breach_seq=row.breach_seq,
        clear_seq=row.clear_seq,
        fingerprint=row.fingerprint,
    )


def store_memory(row: AlertState, memory: Memory) -> None:
    """Make a memory that of a state."""
    state = memory.state
    row.run_seq, row.run_id = memory.run_seq, memory.run_id
    row.state, row.is_open, row.fired_at = state.status, state.open, state.fired_at
    row.breaches, row.clears = state.breaches, state.clears
    row.series = memory.series if memory.series != SeriesState() else None
    row.breach_seq, row.clear_seq = memory.breach_seq, memory.clear_seq
    row.fingerprint = memory.fingerprint
    store_excluded(row, memory.excluded)


def excluded_of(row: AlertState) -> tuple[RunSpan, ...]:
    """The runs of ended incidents."""
    return tuple(RunSpan(first, end) for first, end in row.excluded or () if first is not None)


def store_excluded(row: AlertState, spans: tuple[RunSpan, ...]) -> None:
    """Make these the runs of ended incidents."""
    row.excluded = [[span.first, span.end] for span in bound_spans(spans)]
