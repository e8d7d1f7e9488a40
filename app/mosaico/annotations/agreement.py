"""How far annotators agree: Cohen's kappa of two, Krippendorff's alpha of any number; pure.

Imports nltk, and with it numpy: call it only in a child process. Nothing weighs "partly" nearer to "right" than "wrong"
is. Source: `nltk.metrics.agreement` for both measures; the intervals are of the jackknife over answers (Efron and
Stein 1981).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple, TypeAlias

from mosaico.annotations.schemas import AgreementMeasure, PairAgreement

# What each annotator says of one answer.
Labels: TypeAlias = Mapping[str, str]
Pattern: TypeAlias = tuple[tuple[str, str], ...]

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
    return Agreement(_measure(shared, lambda task: task.alpha()), pairs)


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
        kappa=_measure(both, lambda task: task.kappa_pairwise(first, second)),
    )


def _measure(answers: Sequence[Labels], measure: Callable[[Any], float]) -> AgreementMeasure:
    """A measure of nltk with its interval. Where all annotations say the same, agreement beyond chance is not defined."""
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


def _value_of(patterns: Counter[Pattern], measure: Callable[[Any], float]) -> float | None:
    """The measure over answers that are counted by what their annotators say; None where it is not defined."""
    # A second, and only in a child process.
    from nltk.metrics.agreement import AnnotationTask

    labels = {label for pattern in patterns for _, label in pattern}
    if len(labels) <= 1:
        return None
    answers = (pattern for pattern, count in patterns.items() for _ in range(count))
    rows = [
        (annotator, number, label)
        for number, pattern in enumerate(answers)
        for annotator, label in pattern
    ]
    return float(measure(AnnotationTask(rows)))


def _interval(
    patterns: Counter[Pattern], value: float, measure: Callable[[Any], float]
) -> tuple[float, float] | None:
    """The 95 % interval by leaving out one answer at a time: equal answers leave equal values, so each pattern is
    left out once. None where a value is not defined or none differs.
    """
    # Only in a child process, as nltk.
    from scipy.special import stdtrit

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
    reach = float(stdtrit(count - 1, 0.975)) * error
    return max(-1.0, value - reach), min(1.0, value + reach)
