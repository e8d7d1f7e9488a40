"""Renders the comparison of two files as one self-contained HTML page; pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mosaico.comparison.attribute_text import explain_drop
from mosaico.comparison.change_text import (
    change_bar,
    describe_change,
    format_headline,
    format_value,
)
from mosaico.comparison.deciders import measures_quality
from mosaico.comparison.judge_text import moved_scores
from mosaico.comparison.question_text import broken_tasks
from mosaico.comparison.run_verdict_text import BY_PRIORITY
from mosaico.comparison.schemas import Comparison, FlippedItem, MetricComparison
from mosaico.core.reports import html_page, html_table
from mosaico.core.text import html_text, shorten
from mosaico.core.web.change_charts import ItemChange, changes_chart, items_chart
from mosaico.statistics.verdict_rules import Scale, Side, Verdict

MAX_TEXT_CHARS: Final = 600
METRIC_TITLES: Final = ("metric", "verdict", "baseline", "candidate", "change")
ITEM_TITLES: Final = (
    "item", "before", "after", "input", "expected", "output before", "output after",
)  # fmt: skip
# Of several metrics, fewer may differ by chance.
MIN_DISAGREEING: Final = 3
STYLE: Final = "td{vertical-align:top;max-width:24em;overflow-wrap:anywhere}"


class ItemTexts(NamedTuple):
    """The texts of an item in both files; a text that a file does not have is None."""

    input: str | None = None
    expected: str | None = None
    output_before: str | None = None
    output_after: str | None = None


class ChangedItem(NamedTuple):
    """An item with the mean of a metric over its trials in both files."""

    item_id: str
    baseline: float
    candidate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFiles:
    """A comparison with what a page shows besides it.

    `item_changes` are the changes of the deciding metric by item. `items` are the flipped items, or where none
    flipped those that are worse at all, the worst first; `texts` are theirs. `spared` metrics could compare the answers, and were not
    computed. `remarks` say how the files were read.
    """

    comparison: Comparison
    item_changes: Sequence[ItemChange] = ()
    less_is_better: bool = False
    items: Sequence[ChangedItem] = ()
    texts: Mapping[str, ItemTexts]
    spared: Sequence[str] = ()
    remarks: Sequence[str] = ()


def deciding_metric(comparison: Comparison) -> MetricComparison | None:
    """The metric or KPI whose verdict is that of the comparison: of the judged ones the one with the largest change for
    the worse, otherwise the largest change; the metric of failed answers only if it regressed.
    """
    rows = {row.metric: row for row in reversed(compared_rows(comparison))}
    judged = [rows[name] for name in comparison.judged if name in rows]
    guard = rows.get(comparison.guard or "")
    if guard is not None and guard.verdict.verdict is Verdict.REGRESSED:
        judged.append(guard)
    return min(judged, key=_rank, default=None)


def _rank(row: MetricComparison) -> tuple[int, float]:
    """The order by verdict, then by the size of the change in multiples of the smallest one that counts."""
    verdict = row.verdict
    rank = (
        BY_PRIORITY.index(verdict.verdict) if verdict.verdict in BY_PRIORITY else len(BY_PRIORITY)
    )
    if rank >= BY_PRIORITY.index(Verdict.INCONCLUSIVE) or not verdict.effect:
        return rank, 0.0
    return rank, -abs(verdict.effect) / (verdict.min_effect or 1.0)


def compared_rows(comparison: Comparison) -> list[MetricComparison]:
    """The verdicts of KPIs, by name, of metrics and of usage figures."""
    kpis = (MetricComparison(metric=kpi.name, verdict=kpi.verdict) for kpi in comparison.kpis)
    return [*kpis, *comparison.metrics, *comparison.usage]


def verdict_of(comparison: Comparison) -> str:
    """The verdict in one word; INVALID when a file cannot be compared, NOT_MEASURED when nothing measures quality."""
    if comparison.verdict.verdict in (Verdict.INVALID, Verdict.NOT_MEASURED):
        return str(comparison.verdict.verdict)
    deciding = deciding_metric(comparison)
    return str((deciding and deciding.verdict.verdict) or Verdict.INCONCLUSIVE)


def headline(comparison: Comparison) -> str:
    """The verdict with the numbers of the deciding metric."""
    verdict, deciding = verdict_of(comparison), deciding_metric(comparison)
    if verdict in (Verdict.INVALID, Verdict.NOT_MEASURED) or deciding is None:
        return f"{verdict}: {comparison.verdict.explanation}"
    parts = [
        f"{deciding.metric} {format_headline(deciding.verdict)}",
        broken_tasks(deciding.verdict.changed_tasks),
        moved_scores(deciding.verdict),
        describe_disagreement(comparison),
    ]
    return f"{verdict}: {'; '.join(filter(None, parts))}"


def describe_others(comparison: Comparison) -> str:
    """How many of the other metrics of quality fell and rose: "9 of 12 other metrics of quality fell"; empty for none."""
    others = [other.verdict.verdict for other in _other_metrics(comparison)]
    changes = [
        (sum(other is verdict for other in others), word)
        for verdict, word in (
            (Verdict.REGRESSED, "fell"),
            (Verdict.IMPROVED, "improved"),
            (Verdict.CHANGED, "changed"),
        )
    ]
    first, *remaining = [(count, word) for count, word in changes if count] or [(0, "changed")]
    noun = "other metric of quality" if len(others) == 1 else "other metrics of quality"
    words = [f"{first[0] or 'none'} of {len(others)} {noun} {first[1]}"]
    words += [f"{count} {word}" for count, word in remaining]
    return ", ".join(words) if others else ""


def describe_disagreement(comparison: Comparison) -> str:
    """The other metrics of quality, where most of them fell and none that decides did, or the reverse: "9 of 12 other
    metrics of quality fell", or the only one, "ROUGE fell".
    """
    metrics = _other_metrics(comparison)
    others = [other.verdict.verdict for other in metrics]
    deciding = {
        row.verdict.verdict for row in compared_rows(comparison) if row.metric in comparison.judged
    }
    for opposite, word in ((Verdict.REGRESSED, "fell"), (Verdict.IMPROVED, "improved")):
        count = sum(other is opposite for other in others)
        if opposite in deciding:
            continue
        if others == [opposite]:
            return f"{metrics[0].metric} {word}"
        if count >= MIN_DISAGREEING and 2 * count > len(others):
            return f"{count} of {len(others)} other metrics of quality {word}"
    return ""


def _other_metrics(comparison: Comparison) -> list[MetricComparison]:
    """The metrics of quality that do not decide, one of those with equal values."""
    return [
        row
        for row in comparison.metrics
        if row.same_as is None
        and row.metric not in comparison.judged
        and row.verdict.effect is not None
        and measures_quality(row.metric)
    ]


def count_changes(files: ComparedFiles) -> str:
    """Return how many items became worse and better; empty when the files share too few items."""
    flips = files.comparison.flipped_items
    if flips is None or not files.item_changes:
        return ""
    sign = -1 if files.less_is_better else 1
    worse = sum(sign * change.change < 0 for change in files.item_changes)
    better = sum(sign * change.change > 0 for change in files.item_changes)
    deciding = deciding_metric(files.comparison)
    if deciding is not None and deciding.verdict.side is Side.BOTH:
        return f"{better} of {len(files.item_changes)} items rose and {worse} fell."
    return (
        f"{worse} of {len(files.item_changes)} items are worse and {better} are better; "
        f"{flips.regressions} are worse and {flips.improvements} are better by half or more."
    )


def html_comparison(files: ComparedFiles) -> str:
    """The page: verdict, changes with their intervals, items, and how the files were read."""
    comparison = files.comparison
    deciding = deciding_metric(comparison)
    names = [run.run_name or run.id for run in (comparison.candidate, comparison.baseline)]
    explanations = [deciding.verdict.explanation] if deciding else []
    body = [
        *map(_paragraph, [*explanations, count_changes(files), comparison.verdict.explanation]),
        *_charts(files, deciding),
        *_what_changed(comparison),
        "<h2>Metrics</h2>",
        html_table(METRIC_TITLES, metric_rows(comparison)),
        *_flipped_items(files),
        "<h2>How the files were read</h2>",
        html_table((), ([remark] for remark in files.remarks)),
    ]
    return html_page(f"{headline(comparison)} ({' against '.join(names)})", body, style=STYLE)


def _what_changed(comparison: Comparison) -> Iterator[str]:
    lines = explain_drop(comparison.what_changed)
    if lines:
        yield "<h2>What changed</h2>"
        yield from map(_paragraph, lines)


def metric_rows(comparison: Comparison) -> Iterator[list[str]]:
    """A row for each compared metric and usage figure, with `METRIC_TITLES`; the deciding one first, and metrics with
    equal values in one row.
    """
    deciding = deciding_metric(comparison)
    rows = [row for row in compared_rows(comparison) if row.same_as is None]
    for row in sorted(rows, key=lambda row: row != deciding):
        text = describe_change(row.verdict, row.verdict.scale)
        if text is not None:
            same = [other.metric for other in comparison.metrics if other.same_as == row.metric]
            yield [
                " = ".join([row.metric, *same]),
                str(row.verdict.verdict),
                text.before,
                text.after,
                text.change,
            ]


def flip_values(item: FlippedItem | ChangedItem) -> tuple[str, str]:
    """The values of an item before and after."""
    return format_value(item.baseline), format_value(item.candidate)


def _charts(files: ComparedFiles, deciding: MetricComparison | None) -> Iterator[str]:
    rates = [row for row in files.comparison.metrics if row.verdict.scale is Scale.RATE]
    bars = [bar for row in rates if (bar := change_bar(row.metric, row.verdict))]
    if bars:
        yield changes_chart("Changes with 95 % CI", bars)
    if files.item_changes and deciding is not None:
        yield items_chart(
            f"{deciding.metric} by item", files.item_changes, less_is_better=files.less_is_better
        )


def _flipped_items(files: ComparedFiles) -> Iterable[str]:
    flips = files.comparison.flipped_items
    if flips is None or not files.items:
        return
    which = "changed by half or more in" if flips.items else "are worse in"
    yield f"<h2>Items that {which} {html_text(flips.metric)}</h2>"
    yield html_table(ITEM_TITLES, (_item_row(item, files.texts) for item in files.items))


def _item_row(item: ChangedItem, texts: Mapping[str, ItemTexts]) -> list[str]:
    item_texts = texts.get(item.item_id, ItemTexts())
    return [
        item.item_id,
        *flip_values(item),
        *(shorten(text or "", MAX_TEXT_CHARS) for text in item_texts),
    ]


def _paragraph(text: str) -> str:
    return f"<p>{html_text(text)}</p>" if text else ""
