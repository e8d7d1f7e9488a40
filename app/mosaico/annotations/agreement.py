"""How far annotators agree: Cohen's kappa of two, Krippendorff's alpha of any number; pure.

Nothing weighs "partly" nearer to "right" than "wrong" is. Sources: Cohen
1960; Krippendorff 2011, for nominal data; the intervals are of the jackknife over answers (Efron and Stein 1981).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple, TypeAlias

from mosaico.annotations.schemas import AgreementMeasure, PairAgreement
from mosaico.statistics.distributions import t_quantile

# What each annotator says of one answer.
Labels: TypeAlias = Mapping[str, str]
Pattern: TypeAlias = tuple[tuple[str, str], ...]
Measure: TypeAlias = Callable[[Counter[Pattern]], float]

# Below, the jackknife says little about how much another sample would differ.
MIN_ANSWERS: Final = 10
MAX_PAIRS: Final = 10


class Agreement(NamedTuple):
    """Alpha over all annotators, and the kappa of the pairs with the most common answers."""

    alpha: AgreementMeasure
    pairs: list[PairAgreement]


def measure_agreement(answers: Sequence[Labels]) -> Agreement:
    """The agreement on answers; those with fewer than two annotations count for nothing."""
    shared = [labels for labels in answers if len(labels) > 1]
    counts = Counter(pair for labels in shared for pair in combinations(sorted(labels), 2))
    pairs = [
        _measure_pair(shared, first, second) for (first, second), _ in counts.most_common(MAX_PAIRS)
    ]
    return Agreement(_measure(shared, _krippendorff_alpha), pairs)


def _measure_pair(answers: Sequence[Labels], first: str, second: str) -> PairAgreement:
    both = [
        {first: labels[first], second: labels[second]}
        for labels in answers
        if first in labels and second in labels
    ]
    return PairAgreement(
        first=first,
        second=second,
        equal=sum(labels[first] == labels[second] for labels in both),
        kappa=_measure(both, _cohen_kappa),
    )


def _measure(answers: Sequence[Labels], measure: Measure) -> AgreementMeasure:
    """A measure with its interval. Where all annotations say the same, agreement beyond chance is not defined."""
    patterns = Counter[Pattern](tuple(sorted(labels.items())) for labels in answers)
    count = patterns.total()
    value = _value_of(patterns, measure)
    reason = None
    interval = None
    if value is None:
        reason = (
            "all annotations say the same: agreement beyond chance is not defined"
            if count
            else "no answer has two annotations"
        )
    elif count < MIN_ANSWERS:
        reason = f"fewer than {MIN_ANSWERS} answers have two annotations: there is no interval"
    else:
        interval = _interval(patterns, value, measure)
        if interval is None:
            reason = "no interval: with any answer less, the measure is the same or not defined"
    low, high = interval or (None, None)
    return AgreementMeasure(value=value, low=low, high=high, answers=count, reason=reason)


def _value_of(patterns: Counter[Pattern], measure: Measure) -> float | None:
    """The measure over answers that are counted by what their annotators say; None where it is not defined."""
    labels = {label for pattern in patterns for _, label in pattern}
    return measure(patterns) if len(labels) > 1 else None


def _krippendorff_alpha(patterns: Counter[Pattern]) -> float:
    """1 less the disagreement within answers as a share of that between all annotations."""
    totals, differing = Counter[str](), 0.0
    for pattern, count in patterns.items():
        labels = Counter(label for _, label in pattern)
        totals.update({label: count * annotations for label, annotations in labels.items()})
        differing += count * _differing_pairs(labels) / (len(pattern) - 1)
    return 1.0 - (totals.total() - 1) * differing / _differing_pairs(totals)


def _differing_pairs(labels: Counter[str]) -> int:
    """The ordered pairs of annotations that say different things."""
    return labels.total() ** 2 - sum(count * count for count in labels.values())


def _cohen_kappa(patterns: Counter[Pattern]) -> float:
    """The agreement of two annotators beyond that by chance, as a share of the most that is possible."""
    first, second, equal = Counter[str](), Counter[str](), 0
    for ((_, label), (_, other)), count in patterns.items():
        first[label] += count
        second[other] += count
        equal += count * (label == other)
    answers = patterns.total()
    by_chance = sum(count * second[label] for label, count in first.items())
    return (equal * answers - by_chance) / (answers * answers - by_chance)


def _interval(
    patterns: Counter[Pattern], value: float, measure: Measure
) -> tuple[float, float] | None:
    """The 95 % interval by leaving out one answer at a time: equal answers leave equal values, so each pattern is
    left out once. None where a value is not defined or none differs.
    """
    count = patterns.total()
    weighted: list[tuple[int, float]] = []
    for pattern, weight in patterns.items():
        left = _value_of(patterns - Counter([pattern]), measure)
        if left is None:
            return None
        weighted.append((weight, left))
    mean = math.fsum(weight * left for weight, left in weighted) / count
    squares = math.fsum(weight * (left - mean) ** 2 for weight, left in weighted)
    error = math.sqrt(squares * (count - 1) / count)
    if error == 0.0:
        return None
    reach = t_quantile(0.975, count - 1) * error
    return max(-1.0, value - reach), min(1.0, value + reach)
