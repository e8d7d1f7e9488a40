"""Compares a file of results with another one, without a server."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mosaico.comparison.pair_comparison import MAX_FLIPS, PairedMeans, compare, paired_means
from mosaico.comparison.schemas import Comparison
from mosaico.core.web.change_charts import ItemChange
from mosaico.gating.offline_gate import list_spared, pair_files
from mosaico.gating.offline_metrics import OfflineMetrics
from mosaico.gating.rules import NothingToGate
from mosaico.reporting.comparison_page import (
    ChangedItem,
    ComparedFiles,
    ItemTexts,
    deciding_metric,
)
from mosaico.reporting.kept_texts import TextKeepingReader
from mosaico.statistics.verdict_rules import About, Side
from mosaico.traces.files.result_sources import ResultSource
from mosaico.traces.files.trace_file import TraceReader


def compare_results(
    base: ResultSource,
    candidate: ResultSource,
    selected: OfflineMetrics,
    reader: TraceReader,
    warn: Callable[[str], None] = lambda _: None,
    *,
    about: About | None = None,
    earlier: Sequence[ResultSource] = (),
    run_sd: float | None = None,
) -> ComparedFiles:
    """The comparison of two files of results with these metrics. Imports numpy. `warn`, `about`,
    `earlier` and `run_sd`: see `pair_files`.

    Raises: the errors of `reader`, and `NothingToGate` for a file without results.
    """
    texts = TextKeepingReader(reader, (base, candidate))
    pair = pair_files(
        base, candidate, selected, texts, selected.requested, warn, about=about, earlier=earlier,
        run_sd=run_sd,
    )  # fmt: skip
    for side in (pair.baseline, pair.candidate):
        if not side.run.traces:
            raise NothingToGate(f"{side.run.id} has no results; a comparison needs some")
    comparison = compare(pair)
    deciding = deciding_metric(comparison)
    flips = comparison.flipped_items
    compared_metrics = {row.metric for row in comparison.metrics}
    is_metric = deciding is not None and deciding.metric in compared_metrics
    if deciding and is_metric and flips and flips.metric != deciding.metric:
        # Of several judged metrics another one than the first decides: the items are those of it.
        comparison = compare(replace(pair, metric=deciding.metric))
    spared = list_spared(pair, selected.spare)
    if deciding is None or not is_metric:
        items = _flipped_items(comparison)
        return ComparedFiles(
            comparison=comparison,
            items=items,
            texts=_read_texts(base, candidate, items, texts),
            spared=spared,
        )
    means = paired_means(pair, deciding.metric)
    less_is_better = deciding.verdict.side is Side.HIGH
    items = _flipped_items(comparison) or _worse_items(means, less_is_better=less_is_better)
    return ComparedFiles(
        comparison=comparison,
        item_changes=[
            ItemChange(item, after - means.baseline[item])
            for item, after in means.candidate.items()
            if item in means.baseline
        ],
        less_is_better=less_is_better,
        items=items,
        texts=_read_texts(base, candidate, items, texts),
        spared=spared,
    )


def _flipped_items(comparison: Comparison) -> list[ChangedItem]:
    flips = comparison.flipped_items
    return [
        ChangedItem(item.item_id, item.baseline, item.candidate)
        for item in (flips.items if flips else ())
    ]


def _worse_items(means: PairedMeans, *, less_is_better: bool) -> list[ChangedItem]:
    """The items that are worse, the worst first."""
    sign = 1 if less_is_better else -1
    changed = [
        ChangedItem(item, means.baseline[item], after)
        for item, after in means.candidate.items()
        if item in means.baseline and sign * (after - means.baseline[item]) > 0
    ]
    changed.sort(key=lambda item: (-sign * (item.candidate - item.baseline), item.item_id))
    return changed[:MAX_FLIPS]


def _read_texts(
    base: ResultSource,
    candidate: ResultSource,
    shown: Sequence[ChangedItem],
    reader: TextKeepingReader,
) -> dict[str, ItemTexts]:
    items = {item.item_id for item in shown}
    if not items:
        return {}
    before, after = (reader.texts_of(path, items) for path in (base, candidate))
    return {
        item: ItemTexts(
            input=after[item].input,
            expected=after[item].expected,
            output_before=before[item].output,
            output_after=after[item].output,
        )
        for item in items
    }
