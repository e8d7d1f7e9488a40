"""Incidents of a series of runs: when one opens, changes and closes; decided without a database.

A series is one KPI or metric of one agent in comparable runs. Its state contains the reference runs
and the runs of an open incident. Each valid run advances the state:

    no incident   a significant fall opens an incident: the runs of the fall leave the reference,
                  which is frozen. A significant rise of several runs starts a new reference.
    incident      the last runs are back on the frozen reference: the incident closes, and they join the
                  reference. Another fall makes it worse; a rise that is not a recovery is
                  "partly back". A person may accept the new level, or call the incident noise and
                  take that back.

One scan and one limit serve all of them. Runs inside an incident enter the reference only when it may have been chance:
without them the series would look quieter than it is, and soon page again.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mosaico.alerts.evaluation.recovery_rules import LEVEL_RUNS, find_recovery, may_be_chance
from mosaico.alerts.evaluation.series_evidence import (
    PagePolicy,
    SeriesView,
    incident_evidence,
    score_against,
    window_evidence,
)
from mosaico.kpis.series_types import (
    OpenIncident,
    RunsEvidence,
    SeriesEvent,
    SeriesState,
    SeriesStatus,
)
from mosaico.statistics.run_variance import RunVariance
from mosaico.statistics.sequential import (
    MAX_REFERENCE,
    RunLevel,
    Scan,
    WindowScore,
    estimate_variance,
    scan_levels,
)

# An open incident remembers this number of its latest runs.
MAX_INCIDENT_RUNS: Final = MAX_REFERENCE


class SeriesStep(NamedTuple):
    """The state after a run, and the evidence of the run."""

    state: SeriesState
    evidence: RunsEvidence

    @property
    def is_reference_lost(self) -> bool:
        return self.evidence.event is SeriesEvent.REFERENCE_LOST


def advance_series(
    state: SeriesState, levels: Mapping[int, RunLevel], run: int, policy: PagePolicy
) -> SeriesStep:
    """The state after one more valid run.

    `levels` holds the levels of the run and of `state.runs`; runs that are missing in it (deleted,
    or without items in common with the others) leave the state.
    """
    state = _drop_missing(state, levels)
    view = SeriesView(levels, policy)
    if state.incident is None:
        return _advance_reference(state, view, run)
    if not state.reference:
        return _lose_reference(state.incident, view, run)
    return _advance_incident(state, state.incident, view, run)


def accept_level(state: SeriesState, accepted: int | None = None) -> SeriesState:
    """Closes the incident: its present level is the new reference, from the `accepted` run on when
    one is given.
    """
    if state.incident is None:
        return state
    first = max(state.incident.level_runs[0], accepted or 0)
    reference = tuple(run for run in state.incident.runs if run >= first)
    # How runs vary does not depend on their level.
    return SeriesState(reference=reference, variation=state.variation)


def return_runs(state: SeriesState) -> SeriesState:
    """Closes the incident as noise: its runs are ordinary and join the reference."""
    if state.incident is None:
        return state
    return with_noise(state.model_copy(update={"incident": None}), state.incident.runs)


def with_noise(state: SeriesState, runs: Sequence[int]) -> SeriesState:
    """A state whose reference also has the runs of an incident that was noise.

    They contribute to the variation between runs, and no window contains them, which would open the same incident
    again.
    """
    return _join_reference(state, (), returned=runs)


def without_noise(
    state: SeriesState, bad_runs: Sequence[int], good_runs: Sequence[int] = ()
) -> SeriesState:
    """A state whose reference is without the bad runs of an incident, which were no noise; its good runs, in which it
    recovered, are ordinary ones.
    """
    withdrawn = {*bad_runs} & {*state.returned}
    return state.model_copy(
        update={
            "reference": tuple(run for run in state.reference if run not in withdrawn),
            "returned": tuple(run for run in state.returned if run not in {*bad_runs, *good_runs}),
        }
    )


def _advance_reference(state: SeriesState, view: SeriesView, run: int) -> SeriesStep:
    runs = (*state.reference, run)
    scan = scan_levels(
        view.of(runs), prior_sd=view.policy.prior_sd, returned=frozenset(state.returned)
    )
    state = _join_reference(state, (run,))
    if scan.fall is None or scan.rise is None:
        return SeriesStep(state, RunsEvidence(status=SeriesStatus.WARMUP, limit=view.limit))
    if scan.fall.z > view.limit and scan.fall.effect <= -view.policy.min_effect:
        return _open(state, runs, scan.fall, view)
    if _is_new_level(scan, view):
        reference = runs[-scan.rise.width :]
        evidence = window_evidence(scan.rise, runs, view, SeriesEvent.IMPROVED)
        return SeriesStep(SeriesState(reference=reference), evidence)
    return SeriesStep(state, window_evidence(scan.fall, runs, view))


def _is_new_level(scan: Scan, view: SeriesView) -> bool:
    """Return whether several runs together are better than those before them."""
    rise = scan.rise
    return rise is not None and rise.z < -view.limit and rise.width >= LEVEL_RUNS


def _open(
    state: SeriesState, runs: Sequence[int], fall: WindowScore, view: SeriesView
) -> SeriesStep:
    reference, bad = tuple(runs[: -fall.width]), tuple(runs[-fall.width :])
    incident = OpenIncident(started=bad[0], opened=bad[-1], runs=bad, level_runs=bad)
    state = state.model_copy(update={"reference": reference, "incident": incident})
    return SeriesStep(state, window_evidence(fall, runs, view, SeriesEvent.OPENED, is_open=True))


def _advance_incident(
    state: SeriesState, incident: OpenIncident, view: SeriesView, run: int
) -> SeriesStep:
    incident = incident.model_copy(update={"runs": (*incident.runs, run)[-MAX_INCIDENT_RUNS:]})
    reference = state.reference
    variance = _variance_of(view, reference, state.returned, incident.runs)
    recovered = find_recovery(view, reference, incident, variance)
    if recovered:
        return _count_recovery(state, incident, recovered, view, variance)
    incident = incident.model_copy(update={"recovered": 0})
    since = _since_level(incident)
    scan = scan_levels(
        view.of(since),
        prior_sd=view.policy.prior_sd,
        returned=frozenset(state.returned),
        others=view.of(reference),
    )
    change = _change_inside(scan, view, reference, since)
    if change is None:
        score = score_against(view, reference, incident.runs[-1:], variance)
        evidence = incident_evidence(score, incident, view, reference, None)
    else:
        event, width = change
        incident = incident.model_copy(update={"level_runs": since[-width:]})
        score = score_against(view, reference, incident.level_runs, variance)
        evidence = incident_evidence(score, incident, view, reference, event, since[:-width])
    return SeriesStep(state.model_copy(update={"incident": incident}), evidence)


def _change_inside(
    scan: Scan, view: SeriesView, reference: Sequence[int], since: Sequence[int]
) -> tuple[SeriesEvent, int] | None:
    """A further fall or a partial recovery of an open incident, and the number of its runs."""
    if scan.fall is None or scan.rise is None:
        return None
    if scan.fall.z > view.limit:
        below = view.mean(since[-scan.fall.width :]) < view.mean(reference)
        return (SeriesEvent.WORSE, scan.fall.width) if below else None
    if _is_new_level(scan, view):
        return SeriesEvent.PARTLY_BACK, scan.rise.width
    return None


def _count_recovery(
    state: SeriesState,
    incident: OpenIncident,
    recovered: tuple[int, ...],
    view: SeriesView,
    variance: RunVariance,
) -> SeriesStep:
    incident = incident.model_copy(update={"recovered": incident.recovered + 1})
    score = score_against(view, state.reference, recovered, variance)
    if incident.recovered <= view.policy.keep_firing_for_runs:
        state = state.model_copy(update={"incident": incident})
        return SeriesStep(state, incident_evidence(score, incident, view, state.reference, None))
    evidence = incident_evidence(score, incident, view, state.reference, SeriesEvent.RESOLVED)
    bad_runs = [run for run in incident.runs if run not in recovered]
    # The recovered runs show how the series varies, too, of which a short reference knew little.
    good_runs = (*state.reference, *recovered)
    variance = _variance_of(view, good_runs, state.returned)
    is_chance = may_be_chance(view, good_runs, bad_runs, variance)
    state = _join_reference(
        state.model_copy(update={"incident": None}),
        recovered,
        returned=bad_runs if is_chance else (),
    )
    return SeriesStep(state, evidence.model_copy(update={"status": SeriesStatus.OK}))


def _variance_of(
    view: SeriesView, runs: Sequence[int], returned: Sequence[int], recent: Sequence[int] = ()
) -> RunVariance:
    return estimate_variance(
        view.of(runs),
        prior_sd=view.policy.prior_sd,
        recent=view.of(recent),
        returned=frozenset(returned),
    )


def _join_reference(
    state: SeriesState, runs: Sequence[int], *, returned: Sequence[int] = ()
) -> SeriesState:
    reference = tuple(sorted({*state.reference, *runs, *returned})[-MAX_REFERENCE:])
    kept = sorted({*state.returned, *returned} & {*reference})
    return state.model_copy(update={"reference": reference, "returned": tuple(kept)})


def _lose_reference(incident: OpenIncident, view: SeriesView, run: int) -> SeriesStep:
    runs = (*(seq for seq in incident.runs if seq in view.levels), run)
    evidence = RunsEvidence(
        status=SeriesStatus.WARMUP, event=SeriesEvent.REFERENCE_LOST, limit=view.limit
    )
    return SeriesStep(SeriesState(reference=runs[-MAX_REFERENCE:]), evidence)


def _since_level(incident: OpenIncident) -> tuple[int, ...]:
    first = incident.level_runs[0]
    return tuple(run for run in incident.runs if run >= first)


def _drop_missing(state: SeriesState, levels: Mapping[int, RunLevel]) -> SeriesState:
    if all(run in levels for run in state.runs):
        return state
    reference = tuple(run for run in state.reference if run in levels)
    incident = state.incident
    if incident is not None:
        runs = tuple(run for run in incident.runs if run in levels)
        level_runs = tuple(run for run in incident.level_runs if run in levels)
        # Without a level of its own, the incident is judged by all its runs.
        level_runs = level_runs or runs
        update = {"runs": runs, "level_runs": level_runs}
        incident = incident.model_copy(update=update) if level_runs else None
    returned = tuple(run for run in state.returned if run in levels)
    return state.model_copy(
        update={"reference": reference, "returned": returned, "incident": incident}
    )
