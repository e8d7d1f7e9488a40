"""Other detectors of changes, tuned to the rate of false alarms of the product."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mosaico.statistics.sequential import RunLevel
from tests.support.series_simulation import PRIOR_SD, pages_per_month


class Rival(NamedTuple):
    """Another detector: the runs at which it pages for a limit, which is tuned in a range."""

    name: str
    pages: Callable[[Sequence[RunLevel], float], list[int]]
    low: float
    high: float


def _page_on_entry(statistics: Sequence[float], limit: float) -> list[int]:
    """The state machine of threshold rules: open on a breach, closed by two healthy runs."""
    pages, is_open, healthy = list[int](), False, 0
    for run, statistic in enumerate(statistics):
        if statistic > limit:
            if not is_open:
                pages.append(run)
            is_open, healthy = True, 0
        else:
            healthy += 1
            is_open = is_open and healthy < 2
    return pages


def _fixed_threshold(levels: Sequence[RunLevel], limit: float) -> list[int]:
    """A threshold that somebody sets once, `limit` below the mean of the first 12 runs."""
    expected = math.fsum(run.level for run in levels[:12]) / 12
    return _page_on_entry([expected - run.level for run in levels], limit)


def _percentage_drop(levels: Sequence[RunLevel], limit: float) -> list[int]:
    """A fall by a percentage from the mean of the five runs before."""
    values = np.array([run.level for run in levels])
    falls = [0.0, 0.0] + [
        float(1 - values[run] / values[max(0, run - 5) : run].mean())
        for run in range(2, len(values))
    ]
    return _page_on_entry(falls, limit)


def _anomaly(levels: Sequence[RunLevel], limit: float) -> list[int]:
    """The method "components" of `mosaico.statistics.anomaly` over the 30 runs before."""
    values = np.array([run.level for run in levels])
    noises = np.array([run.noise or 0.0 for run in levels])
    scores = [0.0] * 5
    for run in range(5, len(values)):
        window = values[max(0, run - 30) : run]
        within = noises[max(1, run - 30) : run].mean()
        spread = math.sqrt(max(window.var(ddof=1), within) * (1 + 1 / len(window)))
        scores.append((window.mean() - values[run]) / spread)
    return _page_on_entry(scores, limit)


def _cusum(levels: Sequence[RunLevel], limit: float) -> list[int]:
    # The slack of half a standard deviation is best for a shift of one (Page 1954).
    return _sequential(levels, limit, lambda total, harm: max(0.0, total + harm - 0.5))


def _ewma(levels: Sequence[RunLevel], limit: float) -> list[int]:
    """EWMA with the weight 0.2, in its own standard deviations."""
    # The standard deviation of an EWMA in the long run is sqrt(weight / (2 − weight)).
    scale = math.sqrt(0.2 / 1.8)
    return _sequential(levels, limit, lambda total, harm: 0.8 * total + 0.2 * harm / scale)


def _sequential(
    levels: Sequence[RunLevel], limit: float, advance: Callable[[float, float], float]
) -> list[int]:
    """A sum of harms in standard deviations of the runs outside of its incidents (at most 60)."""
    pages, reference = list[int](), list[RunLevel]()
    total, is_open, healthy = 0.0, False, 0
    for run, level in enumerate(levels):
        mean, sd = _mean_and_sd(reference)
        harm = (mean - level.level) / sd if sd else 0.0
        if is_open:
            # The 95 % quantile of the normal distribution.
            healthy = healthy + 1 if harm < 1.64 else 0
            is_open = healthy < 2
            continue
        total = advance(total, harm)
        if total > limit:
            pages.append(run)
            total, is_open, healthy = 0.0, True, 0
        else:
            reference = [*reference[-59:], level]
    return pages


def _mean_and_sd(reference: Sequence[RunLevel]) -> tuple[float, float]:
    """Shrunk as in `sequential`; 0 before the third run."""
    if len(reference) < 2:
        return 0.0, 0.0
    values = [run.level for run in reference]
    mean = math.fsum(values) / len(values)
    noises = [run.noise for run in reference if run.noise is not None]
    within = math.fsum(noises) / max(1, len(noises))
    squares = math.fsum((value - mean) ** 2 for value in values)
    shrunk = (2 * (within + PRIOR_SD**2) + squares) / (len(values) + 1)
    return mean, math.sqrt(max(within, shrunk) * (1 + 1 / len(values)))


RIVALS = (
    Rival("fixed threshold", _fixed_threshold, 0.0, 1.0),
    Rival("10 % drop", _percentage_drop, 0.0, 1.0),
    Rival("CUSUM", _cusum, 0.5, 20.0),
    Rival("EWMA", _ewma, 0.5, 8.0),
    Rival("ANOMALY", _anomaly, 0.5, 10.0),
)


def tune(rival: Rival, histories: Sequence[dict[int, RunLevel]], rate: float) -> float:
    """The limit with which a rival pages `rate` times in 30 runs of unchanged histories."""
    series = [list(levels.values()) for levels in histories]
    low, high = rival.low, rival.high
    for _ in range(12):
        limit = (low + high) / 2
        pages = [rival.pages(levels, limit) for levels in series]
        if pages_per_month(pages, len(series[0])) > rate:
            low = limit
        else:
            high = limit
    return high


def play_rival(
    rival: Rival, histories: Sequence[dict[int, RunLevel]], limit: float
) -> list[list[int]]:
    return [rival.pages(list(levels.values()), limit) for levels in histories]
