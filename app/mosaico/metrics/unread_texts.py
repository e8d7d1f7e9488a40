"""What is said of expected texts that metrics cannot read: the warning of a run, and the reason of a missing value."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from mosaico.formula import FormulaValue, Reference
from mosaico.metrics.aggregate import Aggregate
from mosaico.metrics.registry import column_of, provider_for
from mosaico.metrics.types import MetricRef, MetricSpec

# From this share of unread expected texts on, a run has a warning.
_WARNING_SHARE: Final = 0.1


class MeasuredTexts(NamedTuple):
    """The number of traces of a metric, and of those among them with an expected text that it cannot read."""

    spec: MetricSpec
    traces: int
    unread: int

    @classmethod
    def of(cls, spec: MetricSpec, aggregate: Aggregate) -> "MeasuredTexts":
        unread = aggregate.not_applicable
        return cls(spec, aggregate.expected + unread, unread)

    @property
    def needs_warning(self) -> bool:
        return self.unread > 0 and self.unread >= _WARNING_SHARE * self.traces


def measured_texts(
    refs: Iterable[MetricRef], aggregates: Mapping[str, Aggregate]
) -> list[MeasuredTexts]:
    """What these metrics read, by their aggregates by column. The registry of metrics must be loaded."""
    specs = (provider_for(ref).spec for ref in refs)
    return [
        MeasuredTexts.of(spec, aggregates[spec.key]) for spec in specs if spec.key in aggregates
    ]


def explain_unread(metrics: Iterable[MeasuredTexts], names: Iterable[str]) -> str | None:
    """The reason why some metrics, by their names in formulas, lack values; None when they read all expected texts."""
    columns = set(map(column_of, names))
    unread = [texts for texts in metrics if texts.unread and texts.spec.key in columns]
    return _sentence(unread) if unread else None


def explain_value(
    result: FormulaValue,
    values: Mapping[Reference, float | None],
    metrics: Iterable[MeasuredTexts],
    explain_missing: Callable[[Reference], str | None],
) -> str | None:
    """The reason why a formula has no value, with the cause where metrics cannot read texts or have too few trials;
    None for a value.
    """
    if result.reason is None:
        return None
    missing = [reference for reference, value in values.items() if value is None]
    cause = explain_unread(metrics, [reference.key for reference in missing])
    cause = cause or next(filter(None, map(explain_missing, missing)), None)
    return f"{result.reason}: {cause}" if cause else result.reason


def warn_of_unread(metrics: Iterable[MeasuredTexts]) -> str | None:
    """One line about the metrics that cannot read a tenth of their expected texts or more; None without one.

    "ROUGE cannot read 60 of 60 expected answers; use CHRF or ROUGE with tokenizer=unicode".
    """
    unread = [texts for texts in metrics if texts.needs_warning]
    return _sentence(unread) if unread else None


def _sentence(metrics: list[MeasuredTexts]) -> str:
    names = defaultdict[tuple[int, int], list[str]](list)
    for texts in metrics:
        names[texts.unread, texts.traces].append(texts.spec.key)
    parts = [
        f"{_enumerate(keys, 'and')} cannot read {unread:,} of {traces:,} expected answers"
        for (unread, traces), keys in names.items()
    ]
    alternatives = dict.fromkeys(
        alternative
        for texts in metrics
        if texts.spec.readable
        for alternative in texts.spec.readable.alternatives
    )
    remedy = f"; use {_enumerate(list(alternatives), 'or')}" if alternatives else ""
    return f"{_enumerate(parts, 'and')}{remedy}"


def _enumerate(words: list[str], conjunction: str) -> str:
    *first, last = words
    return f"{', '.join(first)} {conjunction} {last}" if first else last
