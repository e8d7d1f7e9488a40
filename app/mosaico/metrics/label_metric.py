"""Metrics of answers that are labels: precision, recall and F1 of a run from its confusions.

Memory grows with the number of labels, not with the number of traces.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import fsum
from typing import TYPE_CHECKING, Final

from mosaico.core.text import unstorable_reason
from mosaico.metrics.confusion import Confusion, LabelAverage, LabelStatistic, total_confusion
from mosaico.metrics.registry import version_with
from mosaico.metrics.text_metric import BOTH_TEXTS
from mosaico.metrics.text_overlap import fold_case
from mosaico.metrics.types import InvalidMetricReference, MetricSpec, Summary
from mosaico.traces.types import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Counts of texts that are all different would grow with the number of traces.
MAX_LABELS: Final = 10_000
_MAX_LABEL_CHARS: Final = 64  # a longer label, or one that cannot be stored, is kept as its digest

_SCIKIT_LEARN_FUNCTIONS: Final = {
    LabelStatistic.PRECISION: "precision_score",
    LabelStatistic.RECALL: "recall_score",
    LabelStatistic.F1: "f1_score",
    LabelStatistic.ACCURACY: "accuracy_score",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelMetric:
    """1 for the right label and 0 for any other; for the run, a statistic of all labels.

    Provides `MetricProvider` and `CountedMetric`. A summary is `{label: [right, expected, given]}`.
    """

    spec: MetricSpec
    statistic: LabelStatistic
    average: LabelAverage
    positive: str

    def supports(self, trace: Trace) -> bool:
        return trace.expected_output is not None and trace.output is not None

    def compute(self, trace: Trace) -> float:
        return float(_label(trace.expected_output or "") == _label(trace.output or ""))

    def summarize(self, traces: Sequence[Trace]) -> Summary:
        right: Counter[str] = Counter()
        expected: Counter[str] = Counter()
        predicted: Counter[str] = Counter()
        for trace in traces:
            expected_label = _label(trace.expected_output or "")
            expected[expected_label] += 1
            if trace.outcome.is_agent_failure:
                predicted.update(self._labels_of_failure(expected_label))
            else:
                given_label = _label(trace.output or "")
                predicted[given_label] += 1
                right[expected_label] += given_label == expected_label
        return _bounded(
            {
                label: [right[label], expected[label], predicted[label]]
                for label in expected | predicted
            }
        )

    def merge(self, first: Summary, second: Summary) -> Summary:
        nothing = Confusion(0, 0, 0)
        return _bounded(
            {
                label: list(
                    total_confusion([first.get(label, nothing), second.get(label, nothing)])
                )
                for label in first | second
            }
        )

    def run_value(self, summary: Summary) -> float | None:
        confusions = {label: Confusion(*counts) for label, counts in summary.items()}
        if not confusions:
            return None
        if self._is_of_one_label:
            # None when no item has the positive label, expected or given: precision and recall say
            # nothing then.
            confusion = confusions.get(_label(self.positive))
            return confusion.statistic(self.statistic) if confusion else None
        return self._averaged(confusions)

    def values_of_counts(
        self, names: Sequence[str], counts: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        # numpy takes long to import, and processes that answer requests load this module, too.
        from mosaico.metrics.label_arrays import average_over_labels, statistic_of_label

        if self._is_of_one_label:
            return statistic_of_label(self.statistic, names, counts, _label(self.positive))
        return average_over_labels(self.statistic, self.average, counts)

    @property
    def _is_of_one_label(self) -> bool:
        return self.average == "binary" and self.statistic is not LabelStatistic.ACCURACY

    def _averaged(self, confusions: Mapping[str, Confusion]) -> float:
        if self.average == "micro" or self.statistic is LabelStatistic.ACCURACY:
            return total_confusion(confusions.values()).statistic(self.statistic)
        statistics = {
            label: confusion.statistic(self.statistic) for label, confusion in confusions.items()
        }
        if self.average == "macro":
            return fsum(statistics.values()) / len(statistics)
        weighted = (
            statistics[label] * confusion.expected for label, confusion in confusions.items()
        )
        return fsum(weighted) / total_confusion(confusions.values()).expected

    def _labels_of_failure(self, expected_label: str) -> set[str]:
        """The labels that count as given when the agent failed.

        A failure must never be better than a wrong label. It lowers precision and recall of the
        expected label, and the precision of the positive one when another one was expected.
        """
        if self.average == "binary":
            return {expected_label, _label(self.positive)}
        return {expected_label}


def label_metric(
    key: str, statistic: LabelStatistic, average: LabelAverage, positive: str
) -> LabelMetric:
    """The label form of a metric. Raises Invalid unless `positive` is set exactly for binary."""
    _check_positive(key, average, positive)
    return LabelMetric(
        spec=MetricSpec(
            key=key,
            description=f"1 for the right label, else 0; for the run: {statistic}, {average}",
            source=f"scikit-learn, {_SCIKIT_LEARN_FUNCTIONS[statistic]}, zero_division=0",
            version=version_with("1", labels=average, positive=positive),
            worst=0.0,
            needs=BOTH_TEXTS,
        ),
        statistic=statistic,
        average=average,
        positive=positive,
    )


def _check_positive(key: str, average: LabelAverage, positive: str) -> None:
    if average == "binary" and not _label(positive):
        raise InvalidMetricReference(
            f'{key} with labels "binary" needs the option positive, such as {{"positive": "yes"}}.'
        )
    if average != "binary" and positive:
        raise InvalidMetricReference(
            f'{key} takes the option positive only with {{"labels": "binary"}}; remove it.'
        )


def _label(text: str) -> str:
    """The label in a text: equal for texts that ACCURACY finds equal."""
    label = fold_case(" ".join(text.split()))
    if len(label) <= _MAX_LABEL_CHARS and unstorable_reason(label) is None:
        return label
    return "#" + blake2b(label.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _bounded(summary: dict[str, list[int]]) -> dict[str, list[int]]:
    if len(summary) > MAX_LABELS:
        raise ValueError(f"more than {MAX_LABELS} different labels: these are texts, not labels")
    return summary
