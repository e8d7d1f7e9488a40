"""Whether one slice of the items fell alone: its items fell, and the others did not. Needs numpy."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from mosaico.statistics.distributions import t_cdf

MIN_ITEMS: Final = 5
# The largest slices; more would take longer, and none of them could be found.
MAX_SLICES: Final = 100
PERMUTATIONS: Final = 1999
ALPHA: Final = 0.05
_SEED: Final = 37
# A block of permuted items that fits into the cache.
_BLOCK_CELLS: Final = 1 << 20


class SliceFall(NamedTuple):
    """A slice that fell alone: the mean harm of its items and of the others. `p` is adjusted for all `slices`."""

    name: str
    items: int
    harm: float
    other_items: int
    other_harm: float
    p: float
    slices: int


def find_fallen_slice(
    harms: Sequence[float], slices: Mapping[str, Sequence[int]], min_harm: float
) -> SliceFall | None:
    """The slice that fell alone; None without one.

    `harms` are the changes of the items to the worse, and `slices` the positions of the items of each. Slices with
    fewer than five items, or fewer than five others, are not tested. A slice fell alone if its mean harm is at least
    `min_harm`, it is larger than that of the others beyond chance, and the others did not fall beyond chance.
    Source: Westfall and Young 1993 (maximum of the statistics of all slices under permutations of the items).
    """
    values = np.asarray(harms, dtype=float)
    names, members = _tested(len(values), slices)
    if not names or not values.any() or not np.isfinite(values).all():
        return None
    sizes = members.sum(axis=1)
    spread = values.std() * np.sqrt(1 / sizes + 1 / (len(values) - sizes))
    if not spread.all():
        return None
    total = values.sum()

    def statistics_of(sums: np.ndarray) -> np.ndarray:
        others = (total - sums) / (len(values) - sizes)
        return np.asarray((sums / sizes - others) / spread)

    observed = statistics_of(members @ values)
    best = int(observed.argmax())
    inside = values[members[best].astype(bool)]
    outside = values[~members[best].astype(bool)]
    if inside.mean() < min_harm or _fell(outside):
        return None
    largest = np.concatenate(
        [statistics_of(sums).max(axis=1) for sums in _permuted(values, members)]
    )
    # The observed order is one of the permutations.
    p = float(1 + (largest >= observed[best] - 1e-9).sum()) / (1 + PERMUTATIONS)
    if p > ALPHA:
        return None
    return SliceFall(
        names[best], len(inside), float(inside.mean()), len(outside), float(outside.mean()), p, len(names)
    )  # fmt: skip


def _tested(count: int, slices: Mapping[str, Sequence[int]]) -> tuple[list[str], np.ndarray]:
    """The names of the slices that can be tested, and their items as rows of 0 and 1; equal slices are one test."""
    by_items: dict[tuple[int, ...], str] = {}
    for name in sorted(slices):
        positions = tuple(sorted(slices[name]))
        if MIN_ITEMS <= len(positions) <= count - MIN_ITEMS:
            by_items.setdefault(positions, name)
    largest = sorted(by_items, key=lambda positions: (-len(positions), by_items[positions]))
    members = np.zeros((min(len(largest), MAX_SLICES), count))
    for row, positions in enumerate(largest[:MAX_SLICES]):
        members[row, list(positions)] = 1.0
    return [by_items[positions] for positions in largest[:MAX_SLICES]], members


def _permuted(values: np.ndarray, members: np.ndarray) -> list[np.ndarray]:
    """The sums of each slice under random orders of the items, in blocks of orders."""
    random = np.random.default_rng(_SEED)
    height = max(1, _BLOCK_CELLS // len(values))
    return [
        random.permuted(np.tile(values, (min(height, PERMUTATIONS - start), 1)), axis=1) @ members.T
        for start in range(0, PERMUTATIONS, height)
    ]


def _fell(harms: np.ndarray) -> bool:
    """Return whether items fell beyond chance, by a one-sided t-test."""
    error = harms.std(ddof=1) / np.sqrt(len(harms))
    if error == 0:
        return bool(harms.mean() > 0)
    return t_cdf(float(-harms.mean() / error), len(harms) - 1) < ALPHA
