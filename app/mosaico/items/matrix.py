"""Metric values of runs by item, and the items that two runs share; pure."""

import hashlib
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from operator import eq
from typing import NamedTuple

from mosaico.traces.types import ToolCall

# Runs that share fewer items are compared as two samples of all their items.
MIN_PAIRED_ITEMS = 5
# The largest expected answer that may be a label.
MAX_LABEL_WORDS = 3
MAX_LABEL_BYTES = 32


class ItemRow(NamedTuple):
    """The metric values of one trace of a run; `is_short`: its expected answer is as short as a label; None without
    an expected answer. `answer` is a digest of the output and the tool calls; None without one, or if it is not read.
    """

    run_seq: int
    item_id: str
    revision: str
    tags: list[str]
    values: list[float | None]
    is_short: bool | None = None
    answer: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCounts:
    """Sparse item × label count matrix in COO form.

    Entry i is in row `item_index[i]` and column `label_index[i]`; `columns` hold its numbers.
    """

    labels: list[str] = field(default_factory=list)
    item_index: "array[int]" = field(default_factory=lambda: array("l"))
    label_index: "array[int]" = field(default_factory=lambda: array("l"))
    columns: "list[array[float]]" = field(default_factory=list)

    def take(self, new_index: Mapping[int, int]) -> "LabelCounts":
        """The counts of the items in `new_index`, which maps old to new item indices."""
        entries = [entry for entry, item in enumerate(self.item_index) if item in new_index]
        return LabelCounts(
            labels=self.labels,
            item_index=array("l", (new_index[self.item_index[entry]] for entry in entries)),
            label_index=array("l", (self.label_index[entry] for entry in entries)),
            columns=[array("d", (column[entry] for entry in entries)) for column in self.columns],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemMatrix:
    """The items of one or several runs in the order of their IDs, and their values by trace.

    Trace i belongs to item `item_index[i]` and was made in run `run_index[i]` of the matrix (0, 1,
    …); `values` maps each metric to its value per trace, NaN where missing. `revisions` are digests of the items' tasks, and
    `short` says of which the expected answer is as short as a label, None without one. `clusters` is the cluster of each
    item, empty without clusters. `answers` are the digests of the outputs by trace (see `answer_digest`), 0 without one, empty if
    they are not read. `counts` are the label counts of metrics that are not a mean over
    items. `left_out` is the number of items beyond the limit. `is_sample`: the items are a sample of
    their own, and no item of another matrix is the same one.
    """

    items: list[str] = field(default_factory=list)
    revisions: list[str] = field(default_factory=list)
    short: list[bool | None] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    item_index: "array[int]" = field(default_factory=lambda: array("l"))
    run_index: "array[int]" = field(default_factory=lambda: array("l"))
    answers: "array[int]" = field(default_factory=lambda: array("q"))
    values: "dict[str, array[float]]" = field(default_factory=dict)
    counts: dict[str, LabelCounts] = field(default_factory=dict)
    left_out: int = 0
    is_sample: bool = False

    @property
    def runs(self) -> int:
        """The number of runs whose traces the matrix holds, at least one."""
        return max(self.run_index, default=0) + 1

    def of_run(self, run: int) -> "ItemMatrix":
        """The traces of one run, with all items. Label counts are not known by run."""
        traces = array("l", (trace for trace, index in enumerate(self.run_index) if index == run))
        return replace(
            self,
            item_index=array("l", (self.item_index[trace] for trace in traces)),
            run_index=array("l", [0] * len(traces)),
            answers=self._answers_of(traces),
            values={
                name: array("d", (column[trace] for trace in traces))
                for name, column in self.values.items()
            },
            counts={},
        )

    def take(self, indices: Sequence[int]) -> "ItemMatrix":
        """The matrix of the given items, in the given order."""
        # Most pairs of runs have the same items: a copy of a million traces takes 80 MiB.
        if len(indices) == len(self.items) and all(map(eq, indices, count())):
            return replace(self, left_out=0)
        new_index = {old: new for new, old in enumerate(indices)}
        # As numbers of eight bytes: a million traces as objects take 40 MiB.
        traces = array(
            "l", (trace for trace, item in enumerate(self.item_index) if item in new_index)
        )
        return ItemMatrix(
            items=[self.items[index] for index in indices],
            revisions=[self.revisions[index] for index in indices],
            short=[self.short[index] for index in indices],
            clusters=[self.clusters[index] for index in indices] if self.clusters else [],
            item_index=array("l", (new_index[self.item_index[trace]] for trace in traces)),
            run_index=array("l", (self.run_index[trace] for trace in traces)),
            answers=self._answers_of(traces),
            values={
                name: array("d", (column[trace] for trace in traces))
                for name, column in self.values.items()
            },
            counts={name: counts.take(new_index) for name, counts in self.counts.items()},
            is_sample=self.is_sample,
        )

    def _answers_of(self, traces: Sequence[int]) -> "array[int]":
        return array("q", (self.answers[trace] for trace in traces) if self.answers else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPairing:
    """The items of two runs to compare, and how many items only one of them has.

    With `is_paired` both matrices hold the shared items in the same order; runs that share fewer
    than five items hold all their items and are compared as two samples. `revised` items have
    another task in the candidate, so that their values are not comparable. `left_out` is the number
    of the candidate's items beyond the limit. `are_samples`: see `ItemMatrix.is_sample`.
    """

    baseline: ItemMatrix
    candidate: ItemMatrix
    is_paired: bool
    only_baseline: int
    only_candidate: int
    revised: int
    left_out: int = 0
    are_samples: bool = False


def is_short_text(text: str | None) -> bool | None:
    """Return whether an expected answer is as short as a label; None without one. As `items.queries.IS_SHORT`."""
    if text is None:
        return None
    # Bytes, because a sentence without spaces may have few characters.
    is_short = len(text.encode()) <= MAX_LABEL_BYTES
    return is_short and 1 <= len(text.split()) <= MAX_LABEL_WORDS


def answer_digest(output: str | None, tool_calls: Sequence[ToolCall] | None = None) -> int | None:
    """Eight bytes of an MD5 of an output with its tool calls, but for their times; None without an output. As
    `items.queries.ANSWER`.
    """
    if not output:
        return None
    calls = [(call.name, call.arguments, call.ok) for call in tool_calls or ()]
    text = f"{output}\0{calls!r}" if calls else output
    digest = hashlib.md5(text.encode(errors="surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], signed=True)


def pair_items(baseline: ItemMatrix, candidate: ItemMatrix) -> ItemPairing:
    """The items that two runs share.

    When one of the runs exceeds the item limit, the other run is cut at the same MD5: otherwise
    items beyond the cut would look as if only one run had them.
    """
    item_count = len(candidate.items) + candidate.left_out
    if baseline.is_sample or candidate.is_sample:
        # Windows of production traces may overlap: the traces of both say nothing about a change.
        return ItemPairing(
            baseline=baseline,
            candidate=candidate,
            is_paired=False,
            only_baseline=0,
            only_candidate=0,
            revised=0,
            left_out=candidate.left_out,
            are_samples=True,
        )
    if baseline.left_out or candidate.left_out:
        baseline, candidate = _cut_alike([baseline, candidate])
    indices = {item: index for index, item in enumerate(baseline.items)}
    shared = [
        (indices[item], index) for index, item in enumerate(candidate.items) if item in indices
    ]
    unrevised = [
        (old, new) for old, new in shared if baseline.revisions[old] == candidate.revisions[new]
    ]
    # Very small runs stay paired: two samples of fewer than five items would show nothing either.
    smaller = min(len(baseline.items), len(candidate.items))
    is_paired = len(unrevised) >= MIN_PAIRED_ITEMS or smaller < MIN_PAIRED_ITEMS
    return ItemPairing(
        baseline=baseline.take([old for old, _ in unrevised]) if is_paired else baseline,
        candidate=candidate.take([new for _, new in unrevised]) if is_paired else candidate,
        is_paired=is_paired,
        only_baseline=len(baseline.items) - len(shared),
        only_candidate=len(candidate.items) - len(shared),
        revised=len(shared) - len(unrevised),
        left_out=item_count - len(candidate.items),
    )


def _cut_alike(matrices: Sequence[ItemMatrix]) -> list[ItemMatrix]:
    """The items of each up to the last one that none of them left out."""
    ranks = [[_rank(item) for item in matrix.items] for matrix in matrices]
    end = min(max(ranks[index]) for index, matrix in enumerate(matrices) if matrix.left_out)
    return [
        matrix.take([index for index, rank in enumerate(ranks_of_items) if rank <= end])
        for matrix, ranks_of_items in zip(matrices, ranks, strict=True)
    ]


def _rank(item: str) -> tuple[bytes, bytes]:
    """The position of an item in the order by which items are selected: as `items.queries` sorts."""
    name = item.encode()
    return hashlib.md5(name, usedforsecurity=False).digest(), name


def matrix_of_rows(
    rows: Iterable[ItemRow],
    columns: Mapping[int, Sequence[str]],
    metrics: Sequence[str],
    *,
    cluster_field: str | None = None,
    is_sample: bool = False,
) -> ItemMatrix:
    """The matrix of rows that are sorted by item.

    `columns` names the values of a row by run; `metrics` are the columns to keep. The cluster of an
    item is its tag with the prefix `cluster_field`, or the item itself.
    """
    matrix = ItemMatrix(values={name: array("d") for name in metrics}, is_sample=is_sample)
    positions = {
        run: [list(names).index(name) if name in names else None for name in metrics]
        for run, names in columns.items()
    }
    run_indices = {run: index for index, run in enumerate(columns)}
    for row in rows:
        # The rows are sorted by item, so a new ID begins a new item.
        if not matrix.items or matrix.items[-1] != row.item_id:
            matrix.items.append(row.item_id)
            matrix.revisions.append(row.revision)
            matrix.short.append(row.is_short)
            if cluster_field is not None:
                matrix.clusters.append(_cluster(row.tags, cluster_field) or row.item_id)
        matrix.item_index.append(len(matrix.items) - 1)
        matrix.run_index.append(run_indices[row.run_seq])
        matrix.answers.append(row.answer or 0)
        for column, position in zip(matrix.values.values(), positions[row.run_seq], strict=True):
            value = None if position is None else row.values[position]
            # NaN in an array of floats takes 8 bytes; None would need a list of objects.
            column.append(math.nan if value is None else value)
    return matrix


def _cluster(tags: Sequence[str], cluster_field: str) -> str | None:
    prefix = f"{cluster_field}:"
    # One of several such tags, the same one in every run.
    return min((tag for tag in tags if tag.startswith(prefix)), default=None)
