"""Writes of datasets: each edit makes one version, and no version changes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.core.batches import batched
from mosaico.core.errors import ErrorItem
from mosaico.core.ids import new_id
from mosaico.core.row_limits import lift_limit
from mosaico.traces.datasets import queries
from mosaico.traces.datasets.edit_rules import (
    ItemChanges,
    ItemState,
    apply_edit,
    digest_of_question,
    keep_unsaid,
    storable_item,
)
from mosaico.traces.datasets.errors import (
    DatasetNameTaken,
    DatasetNotFound,
    EditConflict,
    UnusableItems,
)
from mosaico.traces.datasets.schemas import EditResult
from mosaico.traces.models import Dataset, DatasetItemState, DatasetVersion
from mosaico.traces.redaction import RedactionRules, Redactor, merge_rules
from mosaico.traces.redaction_owners import rules_of_upload
from mosaico.traces.types import DatasetItem

# All items of a version are in memory while it is edited as a whole, and while a run is filled.
MAX_ITEMS: Final = 50_000
# The dataset of a benchmark that the caller sees.
_VISIBLE_DATASET: Final = "SELECT WHERE mosaico_sees_dataset(:name)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemEdit:
    """An edit against `base_version`: items to add or change, and IDs of those to retire.

    `replaces_all`: items that it does not name are retired. `origins` are the traces that items were made from, by
    item ID, and `redact` the rules of their benchmark, besides those of all who read the dataset. Items of `partial_ids`
    keep what they do not say.
    """

    base_version: int
    items: Sequence[DatasetItem] = ()
    retired_ids: Collection[str] = ()
    replaces_all: bool = False
    note: str | None = None
    origins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    redact: RedactionRules | None = None
    partial_ids: Collection[str] = ()


def create_dataset(session: Session, name: str) -> Dataset:
    """Create a dataset without items. Raises: `DatasetNameTaken`, `OutsideLimit`."""
    lift_limit(session, visible=_VISIBLE_DATASET, name=name)
    dataset = Dataset(id=new_id(), name=name, version=0, item_count=0)
    session.add(dataset)
    try:
        session.flush()
    except IntegrityError:
        raise DatasetNameTaken(
            f"a dataset with the name {name!r} exists; edit it, or choose another name"
        ) from None
    session.refresh(dataset)
    return dataset


def find_or_create(session: Session, name: str) -> Dataset:
    """The dataset with a name, a new one where it is missing. Raises: `OutsideLimit`."""
    return queries.find_dataset(session, name) or create_dataset(session, name)


def edit_dataset(
    session: Session, dataset_id: str, edit: ItemEdit, *, by: str, now: datetime
) -> EditResult:
    """Make the next version of a dataset; an edit without a difference makes none.

    Edits of different items do not conflict, whichever version they were made against.
    Raises: `DatasetNotFound`, `VersionNotFound`, `EditConflict`, `UnusableItems`.
    """
    dataset = DatasetNotFound.unless(session.get(Dataset, dataset_id, with_for_update=True))
    queries.choose_version(dataset, edit.base_version)
    # The caller sees the dataset; others who read it have rules of redaction, too.
    lift_limit(session)
    items = _storable_items(session, dataset, edit)
    named_ids = [*(item.id for item in items), *edit.retired_ids]
    _require_unchanged(session, dataset, edit, None if edit.replaces_all else named_ids)
    current = queries.read_edited_items(session, dataset, None if edit.replaces_all else named_ids)
    items = [
        keep_unsaid(item, current.get(item.id)) if item.id in edit.partial_ids else item
        for item in items
    ]
    retired_ids = _retired_ids(dataset, edit, items, current)
    changes = apply_edit(current, items, retired_ids)
    if not changes.is_empty:
        _store_version(session, dataset, edit, changes, current, by=by, now=now)
    return EditResult(
        dataset_id=dataset.id,
        name=dataset.name,
        version=dataset.version,
        is_new=not changes.is_empty,
        item_count=dataset.item_count,
        added=len(changes.added),
        changed=len(changes.changed),
        retired=len(changes.retired),
    )


def _storable_items(session: Session, dataset: Dataset, edit: ItemEdit) -> list[DatasetItem]:
    """The items as they are stored. Raises: `UnusableItems` for two items with one ID."""
    every = (edit.redact, rules_of_upload(session, dataset.name))
    rules = merge_rules(filter(None, every))
    redactor = Redactor(rules) if rules else None
    stored = [storable_item(item, redactor) for item in edit.items]
    ids = set[str]()
    for item in stored:
        if item.id in ids:
            raise UnusableItems(f"the item {item.id!r:.80} occurs twice; name each item once")
        ids.add(item.id)
    return stored


def _retired_ids(
    dataset: Dataset,
    edit: ItemEdit,
    items: Sequence[DatasetItem],
    current: Mapping[str, ItemState],
) -> list[str]:
    """The items that the edit retires. Raises: `UnusableItems` for an item that it also changes, or that does not exist."""
    kept = {item.id for item in items}
    for item_id in edit.retired_ids:
        if item_id in kept:
            raise UnusableItems(f"the item {item_id!r:.80} is changed and retired; do one of both")
        if item_id not in current:
            raise UnusableItems(
                f"the dataset {dataset.name!r} has no item {item_id!r:.80} to retire"
            )
    if edit.replaces_all:
        return [item_id for item_id in current if item_id not in kept]
    return list(edit.retired_ids)


def _require_unchanged(
    session: Session, dataset: Dataset, edit: ItemEdit, item_ids: Sequence[str] | None
) -> None:
    """Raise `EditConflict` if an item of the edit was changed since its version."""
    if edit.base_version == dataset.version:
        return
    changed = queries.list_changed_since(session, dataset.id, edit.base_version, item_ids)
    if not changed:
        return
    names = [
        f"{row.item_id!r:.80} {'retired' if row.is_retired else 'changed'} in version {row.version}"
        for row in changed[: queries.MAX_NAMED]
    ]
    more = ", and more" if len(changed) > queries.MAX_NAMED else ""
    raise EditConflict(
        f"since version {edit.base_version} of {dataset.name!r}: {', '.join(names)}{more}; read version"
        f" {dataset.version}, then repeat the edit against it",
        errors=[ErrorItem(pointer="/baseVersion", detail=name) for name in names],
    )


def _store_version(
    session: Session,
    dataset: Dataset,
    edit: ItemEdit,
    changes: ItemChanges,
    current: Mapping[str, ItemState],
    *,
    by: str,
    now: datetime,
) -> None:
    item_count = dataset.item_count + len(changes.added) - len(changes.retired)
    if item_count > MAX_ITEMS:
        raise UnusableItems(
            f"a dataset has at most {MAX_ITEMS:,} items, and this edit makes {item_count:,}; divide it by subject"
        )
    version = dataset.version + 1
    session.add(
        DatasetVersion(
            dataset_id=dataset.id,
            version=version,
            item_count=item_count,
            added=len(changes.added),
            changed=len(changes.changed),
            retired=len(changes.retired),
            note=edit.note,
            created_by=by,
            created_at=now,
        )
    )
    session.flush()
    rows = _state_rows(changes, current, edit, queries.next_position(session, dataset.id))
    for batch in batched([{"dataset_id": dataset.id, "version": version, **row} for row in rows]):
        session.execute(insert(DatasetItemState), batch)
    dataset.version, dataset.item_count, dataset.updated_at = version, item_count, now
    session.flush()


def _state_rows(
    changes: ItemChanges, current: Mapping[str, ItemState], edit: ItemEdit, position: int
) -> Iterable[dict[str, Any]]:
    """The rows of the items of a version that differ from the version before."""
    retired = {item.id for item in changes.retired}
    for item in (*changes.added, *changes.changed, *changes.retired):
        state = current.get(item.id)
        question = digest_of_question(item.input)
        fields = asdict(item)
        yield {
            "item_id": fields.pop("id"),
            **fields,
            "expected_any": list(item.expected_any),
            "expected_all": list(item.expected_all),
            "tags": list(item.tags),
            "position": state.position if state else position,
            "is_retired": item.id in retired,
            "question": question if state and state.first_question != question else None,
            "origin": edit.origins.get(item.id),
        }
        position += state is None
