"""Builds label counts by item, without a database."""

from array import array
from collections.abc import Iterable, Mapping, Sequence

from mosaico.items.matrix import ItemMatrix, LabelCounts
from mosaico.metrics.types import Summary


class LabelCountsBuilder:
    """Builds the label counts of one metric from the summaries of traces."""

    def __init__(self, matrix: ItemMatrix) -> None:
        self._item_index = {item: index for index, item in enumerate(matrix.items)}
        self._label_index: dict[str, int] = {}
        self.counts = LabelCounts()

    def add(self, item_ids: Sequence[str], summaries: Iterable[Summary | None]) -> bool:
        """Adds the summaries of traces of these items; False unless they map labels to equally many
        numbers.

        Summaries come from metric plugins, so their types are not certain.
        """
        try:
            for item_id, summary in zip(item_ids, summaries, strict=True):
                if summary and item_id in self._item_index:
                    self._add(self._item_index[item_id], summary)
        except (AttributeError, TypeError, ValueError):
            return False
        return True

    def _add(self, item: int, summary: Mapping[str, Sequence[float]]) -> None:
        counts = self.counts
        for label, numbers in summary.items():
            if not counts.columns:
                counts.columns.extend(array("d") for _ in numbers)
            for column, number in zip(counts.columns, numbers, strict=True):
                column.append(number)
            counts.item_index.append(item)
            counts.label_index.append(self._label_index.setdefault(label, len(self._label_index)))
            if len(counts.labels) < len(self._label_index):
                counts.labels.append(label)
