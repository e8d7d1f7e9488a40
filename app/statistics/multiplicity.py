"""Adjusts p-values for the number of tests, so that each may be compared with alpha on its own."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from app.statistics.verdict_rules import ChangeVerdict, decide_verdict


class Adjustment(Protocol):
    """Adjusted p-values in the given order, such as `benjamini_hochberg` and `holm`."""

    def __call__(self, p_values: Iterable[float], /) -> list[float]: ...


def holm(p_values: Iterable[float], /) -> list[float]:
    """Controls the family-wise error rate: the probability of any false finding stays under alpha.

    Without scipy, which has no such function and is not needed by the command line.
    Source: Holm 1979; equals statsmodels' `multipletests(method="holm")` within 1e-12.
    """
    values = list(p_values)
    adjusted, largest = [1.0] * len(values), 0.0
    ascending = sorted(range(len(values)), key=values.__getitem__)
    for rank, index in enumerate(ascending):
        # A larger p-value never gets a smaller adjusted one.
        largest = max(largest, min(1.0, values[index] * (len(values) - rank)))
        adjusted[index] = largest
    return adjusted


def benjamini_hochberg(p_values: Iterable[float], /) -> list[float]:
    """Controls the false discovery rate: the expected fraction of false findings among all findings.

    Call it only in a process that computes. Source: Benjamini and Hochberg 1995.
    """
    from scipy.stats import false_discovery_control  # `holm` must not cost the import of scipy

    values = list(p_values)
    adjusted: list[float] = false_discovery_control(values).tolist() if values else []
    return adjusted


def adjust_verdicts(
    changes: Iterable[ChangeVerdict], adjustment: Adjustment
) -> list[ChangeVerdict]:
    """The changes with adjusted p-values and the verdicts that follow, in the given order.

    Changes without a p-value are not tests: they stay as they are and do not count.
    """
    originals = list(changes)
    # All tests of a run together: 20 KPIs without any change would otherwise give one false alarm
    # on average.
    adjusted = iter(adjustment(change.p for change in originals if change.p is not None))
    return [
        change if change.p is None else decide_verdict(replace(change, p_adjusted=next(adjusted)))
        for change in originals
    ]
