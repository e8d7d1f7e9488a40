"""What an edit does to the items of a dataset; pure."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from mosaico.traces.redaction import Redactor
from mosaico.traces.storable_traces import cut_attributes, make_storable
from mosaico.traces.types import DatasetItem, Trace

# The tag of a task: items of runs with different ones are not the same item (`mosaico.items.queries.REVISION`).
TASK_TAG: Final = "task:"
_DIGEST_CHARS: Final = 12

_Answered = TypeVar("_Answered", DatasetItem, Trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemState:
    """An item in the newest version: its place, what it asked first (a digest), and whether it is retired."""

    item: DatasetItem
    position: int
    first_question: str
    is_retired: bool = False


@dataclass(slots=True, kw_only=True)
class ItemChanges:
    """The items that an edit adds, changes and retires; each once."""

    added: list[DatasetItem] = field(default_factory=list)
    changed: list[DatasetItem] = field(default_factory=list)
    retired: list[DatasetItem] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.changed or self.retired)


def apply_edit(
    current: Mapping[str, ItemState], items: Iterable[DatasetItem], retired_ids: Collection[str]
) -> ItemChanges:
    """What an edit changes: an item that is equal to the current one is no change, and a retired item comes back."""
    changes = ItemChanges()
    for item in items:
        state = current.get(item.id)
        if state is None or state.is_retired:
            changes.added.append(item)
        elif state.item != item:
            changes.changed.append(item)
    for item_id in dict.fromkeys(retired_ids):
        state = current.get(item_id)
        if state is not None and not state.is_retired:
            changes.retired.append(state.item)
    return changes


def keep_unsaid(item: DatasetItem, state: ItemState | None) -> DatasetItem:
    """An item that says a part only, with the rest of the stored one: its expected answers, and the tags and attributes with
    other names. Nothing is kept of an item that is new or retired, or whose texts were erased.
    """
    if state is None or state.is_retired or not state.item.input:
        return item
    stored = state.item
    merged = replace(
        item,
        tags=_merge_tags(stored.tags, item.tags),
        attributes={**stored.attributes, **item.attributes},
    )
    return _fill_expected(merged, stored)


def _merge_tags(stored: Sequence[str], said: Sequence[str]) -> tuple[str, ...]:
    """The tags of an item with those that are said in place of the ones with their names: a column `category` says
    `category:…`. Tags without a name are said together.
    """
    names = {_name_of_tag(tag) for tag in said}
    kept = [tag for tag in stored if tag in said or _name_of_tag(tag) not in names]
    return tuple(dict.fromkeys((*kept, *said)))


def _name_of_tag(tag: str) -> str:
    name, has_name, _ = tag.partition(":")
    return name if has_name else ""


def digest_of_question(text: str) -> str:
    """A digest by which two questions are told apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


def storable_item(item: DatasetItem, redactor: Redactor | None) -> DatasetItem:
    """The item as it is stored: redacted, in the limits of stored traces, and without empty answers."""
    trace = Trace(
        trace_id="item",
        item_id=item.id,
        input=item.input,
        expected_output=item.expected_output or None,
        expected_any=tuple(filter(None, item.expected_any)),
        expected_all=tuple(filter(None, item.expected_all)),
        tags=tuple(tag for tag in item.tags if not tag.startswith(TASK_TAG)),
        attributes=item.attributes,
    )
    stored = make_storable(cut_attributes(redactor.trace(trace) if redactor else trace))
    return DatasetItem(
        id=stored.item_id,
        input=stored.input or "",
        expected_output=stored.expected_output,
        expected_any=stored.expected_any,
        expected_all=stored.expected_all,
        tags=stored.tags,
        attributes=dict(stored.attributes),
    )


def fill_trace(trace: Trace, item: DatasetItem) -> Trace:
    """The trace of an item with what it lacks: the question, the expected answer, tags and attributes. What the trace
    itself says counts.
    """
    filled = replace(
        trace,
        input=trace.input if trace.input is not None else item.input or None,
        tags=tuple(dict.fromkeys((*trace.tags, *item.tags))),
        attributes={**item.attributes, **trace.attributes},
    )
    return _fill_expected(filled, item)


def _fill_expected(answered: _Answered, item: DatasetItem) -> _Answered:
    """Give it the expected answers of an item, if it has none."""
    if answered.expected_output is not None or answered.expected_any or answered.expected_all:
        return answered
    return replace(
        answered,
        expected_output=item.expected_output,
        expected_any=item.expected_any,
        expected_all=item.expected_all,
    )
