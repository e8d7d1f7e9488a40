"""How much whole runs of a series vary, as the runs before a run have measured it."""

from sqlalchemy.orm import Session

from mosaico.run_store.run_series import find_series_states, list_series_runs
from mosaico.statistics.whole_runs import MeasuredRuns


def read_measured_runs(
    session: Session, run_seq: int, *, with_run: bool = False
) -> dict[str, MeasuredRuns]:
    """The variation of whole runs before the night of a run, or up to and with it, by series; without those of fewer than two
    runs.
    """
    runs = list_series_runs(session, run_seq, with_night=False)
    runs += [run_seq] if with_run else []
    states = find_series_states(session, runs)
    return {
        series: state.variation.measured
        for series, state in states.items()
        if state.variation is not None
    }
