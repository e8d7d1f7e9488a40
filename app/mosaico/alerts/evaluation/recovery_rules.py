"""Evidence that a series is back on the reference of its open incident: one rule on its last runs."""

from collections.abc import Sequence
from typing import Final

from mosaico.alerts.evaluation.series_evidence import SeriesView, score_against
from mosaico.kpis.series_types import OpenIncident
from mosaico.statistics.run_variance import RunVariance

# A new level takes so many runs, that of a recovery, of a partial one and of an improvement: one good run is none.
LEVEL_RUNS: Final = 5
# An incident whose bad runs together are further from the reference was no chance: it appears once in 30 x 600 runs.
CHANCE_Z: Final = 4.5


def find_recovery(
    view: SeriesView, reference: Sequence[int], incident: OpenIncident, variance: RunVariance
) -> tuple[int, ...]:
    """The last five runs of an incident when they are back on the reference; empty otherwise.

    Their mean is at most one standard error below the reference, and nearer to it than to the other runs.
    """
    later_runs = [run for run in incident.runs if run > incident.level_runs[-1]]
    if len(later_runs) < LEVEL_RUNS:
        return ()
    latest = tuple(later_runs[-LEVEL_RUNS:])
    score = score_against(view, reference, latest, variance)
    bad_runs = [run for run in incident.runs if run not in latest]
    # The runs of a long incident that are left may all be good ones.
    bad_level = view.mean(bad_runs or latest)
    fall, depth = -score.effect, view.mean(reference) - bad_level
    is_back = fall <= min(score.standard_error, max(depth, 0.0) / 2)
    return latest if is_back else ()


def may_be_chance(
    view: SeriesView, good_runs: Sequence[int], bad_runs: Sequence[int], variance: RunVariance
) -> bool:
    """Return whether an unchanged agent with these good runs may have the bad runs of an incident."""
    # A long incident no longer has the runs that paged, and all others may have recovered.
    return bool(bad_runs) and score_against(view, good_runs, bad_runs, variance).z <= CHANCE_Z
