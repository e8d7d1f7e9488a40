"""Answers that are labels: precision, recall and F1 of a run from how often each was confused.

Memory grows with the number of labels and not with the number of traces.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from math import fsum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from app.core.errors import Invalid
from app.core.text import unstorable_reason
from app.metrics.reference import BOTH_TEXTS
from app.metrics.registry import version_with
from app.metrics.text import caseless
from app.metrics.types import MetricSpec, Summary
from app.traces.types import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Labels: TypeAlias = Literal["", "macro", "micro", "weighted", "binary"]

MAX_LABELS: Final = 10_000
_LONGEST_LABEL: Final = 64  # characters; what is longer or not storable is known by its digest


class Share(StrEnum):
    """What is divided by what."""

    PRECISION = "precision"
    RECALL = "recall"
    F1 = "f1"
    ACCURACY = "accuracy"


_FUNCTIONS: Final = {
    Share.PRECISION: "precision_score",
    Share.RECALL: "recall_score",
    Share.F1: "f1_score",
    Share.ACCURACY: "accuracy_score",
}


class Confusion(NamedTuple):
    """How often a label was given rightly, was expected, and was given.

    Sums of labels are confusions, too, so the same shares can be asked of them.
    """

    right: int
    expected: int
    given: int

    def share(self, which: Share) -> float:
        """The share from 0 to 1; 0 where nothing could be divided."""
        match which:
            case Share.PRECISION:
                part, whole = self.right, self.given
            case Share.RECALL | Share.ACCURACY:
                part, whole = self.right, self.expected
            case Share.F1:
                part, whole = 2 * self.right, self.expected + self.given
        return part / whole if whole else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelMetric:
    """1 for the right label and 0 for any other; for the run, a share over all labels.

    Provides `MetricProvider` and `CountedMetric`. A summary is `{label: [right, expected, given]}`.
    """

    spec: MetricSpec
    share: Share
    labels: Labels
    positive: str

    def supports(self, trace: Trace) -> bool:
        return trace.expected_output is not None and trace.output is not None

    def compute(self, trace: Trace) -> float:
        return float(_label(trace.expected_output or "") == _label(trace.output or ""))

    def summarize(self, traces: Sequence[Trace]) -> Summary:
        right: Counter[str] = Counter()
        expected: Counter[str] = Counter()
        given: Counter[str] = Counter()
        for trace in traces:
            wanted = _label(trace.expected_output or "")
            expected[wanted] += 1
            if trace.outcome.is_agent_failure:
                given.update(self._wrong_answers(wanted))
            else:
                answer = _label(trace.output or "")
                given[answer] += 1
                right[wanted] += answer == wanted
        return _bounded(
            {label: [right[label], expected[label], given[label]] for label in expected | given}
        )

    def merge(self, one: Summary, other: Summary) -> Summary:
        nothing = Confusion(0, 0, 0)
        return _bounded(
            {
                label: list(_total([one.get(label, nothing), other.get(label, nothing)]))
                for label in one | other
            }
        )

    def run_value(self, summary: Summary) -> float | None:
        confusions = {label: Confusion(*counts) for label, counts in summary.items()}
        if not confusions:
            return None
        if self.labels == "binary" and self.share is not Share.ACCURACY:
            found = confusions.get(_label(self.positive))
            return found.share(self.share) if found else None
        return self._average(confusions)

    def values_of_counts(
        self, names: Sequence[str], counts: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        from app.metrics.label_rows import binary_rows, label_rows

        if self.labels == "binary" and self.share is not Share.ACCURACY:
            return binary_rows(self.share, names, counts, _label(self.positive))
        return label_rows(self.share, self.labels, counts)

    def _average(self, confusions: Mapping[str, Confusion]) -> float:
        if self.labels == "micro" or self.share is Share.ACCURACY:
            return _total(confusions.values()).share(self.share)
        if self.labels == "macro":
            return fsum(each.share(self.share) for each in confusions.values()) / len(confusions)
        weighted = (each.share(self.share) * each.expected for each in confusions.values())
        return fsum(weighted) / _total(confusions.values()).expected

    def _wrong_answers(self, wanted: str) -> set[str]:
        """What a failure counts as having been given: never less bad than a wrong label.

        It lowers precision and recall of the label that was expected, and where something else than
        the positive one was expected, the precision of that.
        """
        return {wanted, _label(self.positive)} if self.labels == "binary" else {wanted}


def label_metric(key: str, share: Share, labels: Labels, positive: str) -> LabelMetric:
    """The label form of a metric. Raises Invalid unless `positive` is there exactly for binary."""
    _require_positive(key, labels, positive)
    return LabelMetric(
        spec=MetricSpec(
            key=key,
            description=f"1 for the right label, else 0; of the run: {share} of labels, {labels}",
            source=f"scikit-learn, {_FUNCTIONS[share]}, zero_division=0",
            version=version_with("1", labels=labels, positive=positive),
            worst=0.0,
            needs=BOTH_TEXTS,
        ),
        share=share,
        labels=labels,
        positive=positive,
    )


def _require_positive(key: str, labels: Labels, positive: str) -> None:
    if labels == "binary" and not _label(positive):
        raise Invalid(
            f'{key} with labels "binary" needs the option positive, such as {{"positive": "yes"}}.',
            code="invalid-metric-option",
        )
    if labels != "binary" and positive:
        raise Invalid(
            f'{key} takes the option positive only with {{"labels": "binary"}}; remove it.',
            code="invalid-metric-option",
        )


def _label(text: str) -> str:
    """The label that a text is: equal for the texts that ACCURACY finds equal."""
    label = caseless(" ".join(text.split()))
    if len(label) <= _LONGEST_LABEL and unstorable_reason(label) is None:
        return label
    return "#" + blake2b(label.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _bounded(summary: dict[str, list[int]]) -> dict[str, list[int]]:
    if len(summary) > MAX_LABELS:
        raise ValueError(f"more than {MAX_LABELS} different labels: these are texts, not labels")
    return summary


def _total(confusions: Iterable[Sequence[int]]) -> Confusion:
    return Confusion(*map(sum, zip(*confusions, strict=True)))
