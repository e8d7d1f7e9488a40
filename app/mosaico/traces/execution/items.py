"""The items of a dataset and the attempts at them; pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from mosaico.core.errors import Invalid
from mosaico.core.parameter_names import mapped_column
from mosaico.core.strict_json import text_of_json
from mosaico.core.text import replace_unstorable_in_json
from mosaico.traces.references import read_expected
from mosaico.traces.storable_traces import short_id
from mosaico.traces.types import DatasetItem, Trace, TraceOutcome

LANGFUSE_PREFIX: Final = "langfuse:"
# After these a repetition would be another attempt; after any other outcome the attempt is repeated.
FINISHED_OUTCOMES: Final = frozenset(
    {TraceOutcome.SCORED, TraceOutcome.AGENT_ERROR, TraceOutcome.TIMEOUT}
)


class UnusableDataset(Invalid):
    """The dataset has no items to run; name a dataset whose items have an ID and an input."""

    exit_code = 2


class ItemAttempt(NamedTuple):
    """One planned attempt (`trial`, from 0) of an agent at an item."""

    item: DatasetItem
    trial: int

    @property
    def trace_id(self) -> str:
        return short_id(f"{self.item.id}#{self.trial}")

    @property
    def label(self) -> str:
        return f"{self.item.id} #{self.trial + 1}" if self.trial else self.item.id

    def is_finished_by(self, trace: Trace) -> bool:
        """Return whether a trace is a finished attempt at this item, whose texts have not changed
        since.
        """
        item = self.item
        return trace.outcome in FINISHED_OUTCOMES and (
            (trace.trace_id, trace.input, _expected(trace))
            == (self.trace_id, item.input, _expected(item))
        )


def _expected(source: Trace | DatasetItem) -> tuple[object, ...]:
    return source.expected_output, source.expected_any, source.expected_all


def item_of(trace: Trace) -> DatasetItem | None:
    """The item that a trace answers; None for a trace without an input."""
    if trace.input is None:
        return None
    return DatasetItem(
        id=trace.item_id,
        input=trace.input,
        expected_output=trace.expected_output,
        expected_any=trace.expected_any,
        expected_all=trace.expected_all,
        tags=trace.tags,
        attributes=trace.attributes,
    )


def items_of(traces: Iterable[Trace], name: str) -> list[DatasetItem]:
    """The different items of traces, in order; `name` is the dataset in messages.

    Raises: `UnusableDataset` without any item, and for an item with two inputs.
    """
    return unique_items(filter(None, map(item_of, traces)), name)


def unique_items(items: Iterable[DatasetItem], name: str) -> list[DatasetItem]:
    """Return each item once: several trials of an item are one item. Raises: `UnusableDataset`."""
    by_id: dict[str, DatasetItem] = {}
    for raw_item in items:
        item = _storable(raw_item)
        first = by_id.setdefault(item.id, item)
        if first.input != item.input:
            raise UnusableDataset(
                f"{name}: the item {item.id!r:.80} occurs with two inputs; give each item an ID of"
                " its own"
            )
    if not by_id:
        raise UnusableDataset(
            f"{name} has no item with an input; name the column: {mapped_column('input', 'COLUMN')}"
        )
    return list(by_id.values())


def item_of_document(document: Mapping[str, Any]) -> DatasetItem:
    """An item as Langfuse has it: structured texts are JSON text, metadata become attributes."""
    metadata = document.get("metadata")
    expected, expected_any = read_expected(document.get("expectedOutput"))
    return DatasetItem(
        id=short_id(str(document["id"])),
        input=text_of_json(document.get("input")) or "",
        expected_output=expected,
        expected_any=expected_any,
        attributes={
            name: text
            for name, value in (metadata.items() if isinstance(metadata, dict) else ())
            if not isinstance(value, dict | list) and (text := text_of_json(value)) is not None
        },
    )


def plan_attempts(items: Iterable[DatasetItem], trials: int) -> list[ItemAttempt]:
    """All attempts: every item once, then every item a second time, and so on."""
    listed = list(items)
    return [ItemAttempt(item, trial) for trial in range(trials) for item in listed]


def fingerprint_of(attempts: Iterable[ItemAttempt]) -> str:
    """A digest of the items and trials: it changes when an item is edited."""
    digest = hashlib.sha256()
    for attempt in attempts:
        fields = {
            name: value
            for name, value in asdict(attempt.item).items()
            # Most items have one expected answer, and the digest that they had before there could be several.
            if value or name not in ("expected_any", "expected_all")
        }
        digest.update(json.dumps([fields, attempt.trial]).encode())
    return digest.hexdigest()[:16]


def _storable(item: DatasetItem) -> DatasetItem:
    fields = replace_unstorable_in_json(asdict(item))
    lists = {name: tuple(fields[name]) for name in ("tags", "expected_any", "expected_all")}
    return DatasetItem(**fields | lists)
