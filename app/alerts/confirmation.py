"""Confirm before a page: when a suspicious run is repeated at once, and what the repetition decides.

A run is suspicious well before it pages. Where the source can make traces again, all items get extra
trials, and the decision is made on the traces of both: chance in the answers is mostly gone then.
What is wrong with the whole evening of a provider is wrong in the repetition, too, and stays.

    step = advance_series(state, levels, run, policy)
    if needs_confirmation(step.evidence):       # and the source can, and the budget allows it
        step = hold(state, step)                # PENDING: the run is neither reference nor incident
    ...                                         # the repetition ends, fails or is not allowed
    step = advance_series(state, levels_of_both, run, policy)

All items are repeated: a repetition of the failed items alone would select bad luck.
"""

from app.alerts.incident_rules import SeriesStep
from app.kpis.series_types import RunsEvidence, SeriesEvent, SeriesState, SeriesStatus

# Suspicious: this fraction of the limit, which is a z of 2.2 at the default promise.
SUSPICIOUS = 0.77
# Extra trials of each item, as a multiple of the trials that the run had.
EXTRA_TRIALS = 2


def needs_confirmation(evidence: RunsEvidence) -> bool:
    """Whether a run is repeated before it pages: its evidence is close to the limit or above it, and
    no incident was open before it.
    """
    if evidence.z is None or evidence.z <= SUSPICIOUS * evidence.limit:
        return False
    return evidence.status is SeriesStatus.OK or evidence.event is SeriesEvent.OPENED


def hold(state: SeriesState, step: SeriesStep) -> SeriesStep:
    """The step of a run that waits for its repetition: the state is that before the run."""
    evidence = step.evidence.model_copy(update={"status": SeriesStatus.PENDING, "event": None})
    return SeriesStep(state, evidence)
