"""The state and the verdict over runs that are stored with a run, for each of its series.

Where a REGRESSED rule watches a series, they are those of the rule; otherwise those of the default
limit of false alarms. What people say about incidents applies to both.
"""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy.orm import Session

from mosaico.alerts.evaluation.incident_rules import accept_level, return_runs, without_noise
from mosaico.alerts.evaluation.rule_series import series_name
from mosaico.alerts.evaluation.run_evaluation import AlertDecision
from mosaico.alerts.models import AlertRule
from mosaico.run_store.run_series import list_newest_series, list_open_series


def leading_decisions(
    rules: Mapping[str, AlertRule], decisions: Iterable[AlertDecision]
) -> dict[str, AlertDecision]:
    """By series, the decision of the REGRESSED rule whose verdict is stored: the one with the highest
    limit of false alarms, which pages first.
    """
    leading: dict[str, AlertDecision] = {}
    for decision in sorted(decisions, key=_precedence):
        if decision.step is not None and decision.rule_id in rules:
            leading.setdefault(series_name(rules[decision.rule_id]), decision)
    return leading


def accept_series(session: Session, run_seq: int) -> None:
    """Makes the level since a run the reference of the series whose open incident has the run."""
    for series in list_open_series(session, run_seq):
        assert series.state is not None
        if run_seq in series.state.runs:
            series.state = accept_level(series.state, run_seq)


def return_series(session: Session, run_seq: int) -> None:
    """Closes the incidents that have a run as noise, in all series: their runs are ordinary."""
    for series in list_open_series(session, run_seq):
        assert series.state is not None
        incident = series.state.incident
        if incident is not None and run_seq in incident.runs:
            series.state = return_runs(series.state)


def withdraw_series(session: Session, runs: Sequence[int]) -> None:
    """Takes the runs of an incident, which was not noise, out of the references of the series that have them by
    `return_series`.
    """
    for series in list_newest_series(session, runs[-1]):
        if series.state is not None:
            series.state = without_noise(series.state, runs)


def _precedence(decision: AlertDecision) -> tuple[float, str]:
    return -decision.false_pages, decision.rule_id
