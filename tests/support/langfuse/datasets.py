"""Datasets of written items and of items that are generated when they are read."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from tests.support.langfuse.records import DatasetItem


class ItemPage(NamedTuple):
    items: list[DatasetItem]
    total: int


@dataclass(slots=True, kw_only=True)
class Dataset:
    """A dataset of generated items, followed by written items."""

    id: str
    name: str
    created_at: datetime
    generated: int = 0
    input_of: Callable[[int], Any] = lambda number: f"question {number}"
    expected_of: Callable[[int], Any] = lambda number: f"answer {number}"
    archived: Container[int] = ()
    deleted: Container[int] = ()
    changed_at: datetime | None = None
    description: str | None = None
    metadata: Any = None
    written: dict[str, DatasetItem] = field(default_factory=dict)

    def item(self, number: int) -> DatasetItem:
        return DatasetItem(
            id=f"{self.id}-{number}",
            input=self.input_of(number),
            expected_output=self.expected_of(number),
            metadata={"topic": f"topic {number % 7}"},
            created_at=self.created_at,
            archived_at=self.changed_at if number in self.archived else None,
            deleted_at=self.changed_at if number in self.deleted else None,
        )

    def find(self, item_id: str) -> DatasetItem | None:
        number = item_id.removeprefix(f"{self.id}-")
        if item_id in self.written:
            return self.written[item_id]
        exists = number.isdecimal() and int(number) < self.generated
        return self.item(int(number)) if exists else None

    def active_page(self, at: datetime | None, page: int, limit: int) -> ItemPage:
        """The listed items; the newest written items come first."""
        written = [item for item in reversed(self.written.values()) if item.is_active(at)]
        numbers: Sequence[int] = range(self.generated)
        if self.changed_at is not None:
            numbers = [number for number in numbers if self.item(number).is_active(at)]
        first, end = (page - 1) * limit, page * limit
        visible_slice = slice(max(first - len(written), 0), max(end - len(written), 0))
        items = written[first:end] + [self.item(number) for number in numbers[visible_slice]]
        return ItemPage(items, len(written) + len(numbers))
