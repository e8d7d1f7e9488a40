"""Metrics with equal values on all items: one signal, one test and one row; pure."""

import hashlib

from mosaico.comparison.comparison_spec import ComparisonSpec, MetricComparisonSpec


def find_equal_metrics(spec: ComparisonSpec) -> dict[str, str]:
    """Map each metric whose values equal those of an earlier one to that one, by column; judged ones are earlier."""
    if spec.candidate is None or spec.baseline is None:
        return {}
    first = dict[object, str]()
    equal = {}
    for metric in sorted(spec.metrics, key=lambda metric: not metric.is_judged):
        # The value of a metric that is counted is no mean of its values.
        if metric.rule is None or metric.count_metric is not None:
            continue
        column = first.setdefault(_signal(spec, metric), metric.column)
        if column != metric.column:
            equal[metric.column] = column
    return equal


def _signal(spec: ComparisonSpec, metric: MetricComparisonSpec) -> object:
    """Everything on which the test of a metric depends."""
    digests = (
        hashlib.blake2b(matrix.values[metric.column].tobytes()).digest()
        for matrix in (spec.baseline, spec.candidate)
        if matrix is not None
    )
    return (metric.rule, metric.limits, *digests)
