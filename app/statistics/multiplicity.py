"""Several p-values at once: adjusted, so that each may be held against alpha on its own."""

from collections.abc import Iterable


def holm(p_values: Iterable[float], /) -> list[float]:
    """Adjusted so that the chance of any false finding stays under alpha; in the order given.

    Source: Holm 1979; equals statsmodels' `multipletests(method="holm")` within 1e-12.
    """
    values = list(p_values)
    adjusted, largest = [1.0] * len(values), 0.0
    for rank, place in enumerate(_ascending(values)):
        largest = max(largest, min(1.0, values[place] * (len(values) - rank)))
        adjusted[place] = largest
    return adjusted


def benjamini_hochberg(p_values: Iterable[float], /) -> list[float]:
    """Adjusted so that the expected share of false findings among all findings stays under alpha;
    in the order given.

    Source: Benjamini and Hochberg 1995; equals scipy's `false_discovery_control` within 1e-12.
    """
    values = list(p_values)
    adjusted, smallest = [1.0] * len(values), 1.0
    for rank, place in reversed(list(enumerate(_ascending(values), start=1))):
        smallest = min(smallest, values[place] * len(values) / rank)
        adjusted[place] = smallest
    return adjusted


def _ascending(values: list[float]) -> list[int]:
    return sorted(range(len(values)), key=values.__getitem__)
