"""Metrics with values of too few of the compared items: a verdict about the others would be about nothing; pure."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from mosaico.core.text import count_noun
from mosaico.items.matrix import ItemMatrix, ItemPairing
from mosaico.metrics.metric_gaps import is_judgement


class LostValues(NamedTuple):
    """The items that have a value in one of the runs only.

    `expected` items have a value in any of the two runs, and `compared` of them in both. Runs without common items have
    shares of their own items: then `expected` and `compared` are those of the run with the smaller share.
    """

    compared: int
    expected: int
    only_baseline: int
    only_candidate: int

    def is_lacking(self, min_coverage: float) -> bool:
        """Return whether the candidate run lacks the values, and not only the baseline."""
        return self.expected - self.only_baseline < min_coverage * self.expected

    def describe(self, column: str) -> str:
        """For example "scores for 20 of 60 items: 40 have none in the candidate run"."""
        noun = "scores" if is_judgement(column) else "values"
        lacking = [
            (self.only_baseline, "candidate"),
            (self.only_candidate, "baseline"),
        ]
        parts = [
            f"{count} {'has' if count == 1 else 'have'} none in the {run} run"
            for count, run in lacking
            if count
        ]
        total = count_noun(self.expected, "item")
        return f"{noun} for {self.compared} of {total}: {' and '.join(parts)}; measure them, too"


def find_lost_values(
    pairing: ItemPairing, columns: Iterable[str], min_coverage: float
) -> dict[str, LostValues]:
    """The metrics, by column, of which fewer than `min_coverage` of the items are measured in both runs.

    An item counts for a metric if it has a value in any of the runs: a score that only some items are given is complete
    where both runs have it. A metric without any common value is not named: it has a reason of its own.
    """
    count = _count_paired if pairing.is_paired else _count_samples
    lost = {column: count(pairing, column) for column in columns}
    return {
        column: values
        for column, values in lost.items()
        if 0 < values.compared < min_coverage * values.expected
    }


def _count_paired(pairing: ItemPairing, column: str) -> LostValues:
    before, after = (_measured(side, column) for side in (pairing.baseline, pairing.candidate))
    return LostValues(
        compared=len(before & after),
        expected=len(before | after),
        only_baseline=len(before - after),
        only_candidate=len(after - before),
    )


def _count_samples(pairing: ItemPairing, column: str) -> LostValues:
    """The items of the run that has values of a smaller share of its items, as if the other's share were all."""
    before, after = (len(_measured(side, column)) for side in (pairing.baseline, pairing.candidate))
    shares = [
        count / max(1, len(side.items))
        for count, side in ((before, pairing.baseline), (after, pairing.candidate))
    ]
    is_candidate = shares[1] < shares[0]
    side, count = (pairing.candidate, after) if is_candidate else (pairing.baseline, before)
    expected = round(max(shares) * len(side.items))
    missing = expected - count
    return LostValues(
        compared=count,
        expected=expected,
        only_baseline=missing if is_candidate else 0,
        only_candidate=0 if is_candidate else missing,
    )


def _measured(side: ItemMatrix, column: str) -> set[int]:
    """The positions of the items that have a value."""
    values = zip(side.item_index, side.values[column], strict=True)
    return {index for index, value in values if not math.isnan(value)}
