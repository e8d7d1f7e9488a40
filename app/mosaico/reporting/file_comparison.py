"""Compares a file of results with another one, without a server."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from mosaico.comparison.pair_comparison import compare, paired_means
from mosaico.comparison.schemas import Comparison
from mosaico.core.web.change_charts import ItemChange
from mosaico.gating.offline_gate import pair_files
from mosaico.gating.offline_metrics import OfflineMetrics
from mosaico.gating.rules import NothingToGate
from mosaico.reporting.comparison_page import ComparedFiles, ItemTexts, deciding_metric
from mosaico.statistics.verdict_rules import About, Side
from mosaico.traces.files.import_file import ResultSource
from mosaico.traces.files.trace_file import TraceReader
from mosaico.traces.types import Trace


def compare_results(
    base: ResultSource,
    candidate: ResultSource,
    selected: OfflineMetrics,
    reader: TraceReader,
    warn: Callable[[str], None] = lambda _: None,
    about: About | None = None,
) -> ComparedFiles:
    """The comparison of two files of results with these metrics. Imports numpy and scipy. `warn` and `about`: see
    `pair_files`.

    Raises: the errors of `reader`, and `NothingToGate` for a file without results.
    """
    pair = pair_files(base, candidate, selected, reader, selected.requested, warn, about)
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
    texts = _read_texts(base, candidate, comparison, reader)
    if deciding is None or not is_metric:
        return ComparedFiles(comparison=comparison, texts=texts)
    means = paired_means(pair, deciding.metric)
    return ComparedFiles(
        comparison=comparison,
        item_changes=[
            ItemChange(item, after - means.baseline[item])
            for item, after in means.candidate.items()
            if item in means.baseline
        ],
        less_is_better=deciding.verdict.side is Side.HIGH,
        texts=texts,
    )


def _read_texts(
    base: ResultSource, candidate: ResultSource, comparison: Comparison, reader: TraceReader
) -> dict[str, ItemTexts]:
    """The texts of the flipped items: the files are read again instead of being kept in memory."""
    flips = comparison.flipped_items
    items = {flip.item_id for flip in flips.items} if flips else set()
    if not items:
        return {}
    before, after = (dict(_first_traces(path, items, reader)) for path in (base, candidate))
    return {
        item: ItemTexts(
            input=after[item].input,
            expected=after[item].expected_output,
            output_before=before[item].output,
            output_after=after[item].output,
        )
        for item in items
    }


def _first_traces(
    path: ResultSource, items: set[str], reader: TraceReader
) -> Iterator[tuple[str, Trace]]:
    missing = set(items)
    with reader.open(path) as traces:
        for trace in traces:
            if trace.item_id in missing:
                missing.remove(trace.item_id)
                yield trace.item_id, trace
            if not missing:
                return
