"""Applies acknowledgements and accepted levels to the stored series states without a rule."""

from sqlalchemy.orm import Session

from app.alerts.evaluation.incident_rules import accept_level, return_runs
from app.results.run_series import list_open_series


def accept_series(session: Session, run_seq: int) -> None:
    """Makes the level since a run the reference of the series whose open incident has the run."""
    for series in list_open_series(session, run_seq):
        assert series.state is not None
        if run_seq in series.state.runs:
            series.state = accept_level(series.state, run_seq)


def return_series(session: Session, run_seq: int) -> None:
    """Closes the incidents of the series that have a run as noise: their runs are ordinary."""
    for series in list_open_series(session, run_seq):
        assert series.state is not None
        if run_seq in series.state.runs:
            series.state = return_runs(series.state)
