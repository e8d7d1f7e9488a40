"""The cumulative sum of the falls of single runs: evidence for a small lasting fall and for a drift.

The sum adds up the score of each run against the runs before it, less a slack, and stays at zero where it
would be negative. It finds small falls sooner than the strongest window, and large ones later; so a series
pages when either is sure.

Source: Page 1954, "Continuous inspection schemes".
"""

import math
from collections.abc import Sequence
from functools import partial

from mosaico.statistics.sequential import (
    MIN_REFERENCE,
    WINDOWS,
    RunLevel,
    estimate_spread,
    score_of_sum,
    score_runs,
)

# Of the score of each run. A sum with a slack finds falls of twice the slack soonest. Correlated runs wander,
# and a sum follows them: with each tenth of their correlation, the slack is larger by a twentieth.
SLACK = 0.25
SLACK_OF_CORRELATION = 0.5
# As many as the longest window.
MAX_RUNS = WINDOWS[-1]


def score_sum_of_falls(
    levels: Sequence[RunLevel], *, prior_sd: float, earlier: Sequence[Sequence[RunLevel]] = ()
) -> float:
    """The z of a window that is as rare as the sum; 0 when the last run does not add to it.

    `levels` and the rest as in `scan_levels`. Runs that returned as noise are in no sum: they stand before
    all others, out of order.
    """
    if len(levels) <= MIN_REFERENCE:
        return 0.0
    score = partial(score_runs, levels, prior_sd=prior_sd, earlier=earlier)
    spread = estimate_spread(levels[:-1], prior_sd=prior_sd, earlier=earlier, recent=levels[-1:])
    slack = SLACK + SLACK_OF_CORRELATION * spread.correlation
    # A sum that has not grown has not paged before, and need not be computed.
    if score(last=1)[0].z <= slack:
        return 0.0
    total = 0.0
    for run in score(last=min(MAX_RUNS, _runs_in_order(levels))):
        total = max(0.0, total + run.z - slack)
    return score_of_sum(total)


def _runs_in_order(levels: Sequence[RunLevel]) -> int:
    """The number of last runs that are in order."""
    count, later = 0, math.inf
    for level in reversed(levels):
        if level.run >= later:
            break
        count, later = count + 1, level.run
    return count
