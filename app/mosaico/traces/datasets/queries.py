"""Reads of datasets, their versions and items."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session, aliased

from mosaico.access.queries import list_caller_names
from mosaico.core.batches import batched
from mosaico.core.db import Database
from mosaico.core.keyset import PageQuery, PageRows, encode_cursor, read_cursor, select_page
from mosaico.core.list_filters import one_value
from mosaico.core.schemas import view_of_row
from mosaico.traces.datasets.edit_rules import TASK_TAG, ItemState, digest_of_question
from mosaico.traces.datasets.errors import DatasetNotFound, ItemNotFound, VersionNotFound
from mosaico.traces.datasets.schemas import DatasetFilter, DatasetVersionView
from mosaico.traces.models import Dataset, DatasetItemState, DatasetVersion
from mosaico.traces.types import DatasetItem

READ_ITEMS: Final = 1_000
MAX_NAMED: Final = 10


def get_dataset(session: Session, dataset_id: str) -> Dataset:
    """A dataset by ID. Raises: `DatasetNotFound`."""
    return DatasetNotFound.unless(session.get(Dataset, dataset_id))


def find_dataset(session: Session, name: str | None) -> Dataset | None:
    """The dataset with a name; None without one."""
    return session.scalars(select(Dataset).where(Dataset.name == name)).one_or_none()


def list_datasets(
    session: Session, query: PageQuery, dataset_filter: DatasetFilter
) -> PageRows[Dataset]:
    """The datasets, newest first."""
    return select_page(
        session,
        select(Dataset),
        keys=[Dataset.created_at, Dataset.id],
        query=query,
        filters=[(Dataset.name, one_value(dataset_filter.name))],
    )


def choose_version(dataset: Dataset, version: int | None) -> int:
    """The version that a request names; the newest one without a name. Raises: `VersionNotFound`."""
    if version is None:
        return dataset.version
    if not 0 <= version <= dataset.version:
        raise VersionNotFound(
            f"the dataset {dataset.name!r} has no version {version}; its newest one is {dataset.version}"
        )
    return version


def list_versions(
    session: Session, dataset_id: str, query: PageQuery
) -> PageRows[DatasetVersionView]:
    """The versions of a dataset with the names of their authors, newest first."""
    of_dataset = select(DatasetVersion).where(DatasetVersion.dataset_id == dataset_id)
    page = select_page(session, of_dataset, keys=[DatasetVersion.version], query=query)
    return page.with_rows(_version_views(session, page.rows))


def get_version(session: Session, dataset_id: str, version: int) -> DatasetVersionView:
    """One version of a dataset. Raises: `VersionNotFound`."""
    row = VersionNotFound.unless(session.get(DatasetVersion, (dataset_id, version)))
    return _version_views(session, [row])[0]


def _version_views(session: Session, rows: Sequence[DatasetVersion]) -> list[DatasetVersionView]:
    names = list_caller_names(session, {row.created_by for row in rows})
    return [
        view_of_row(DatasetVersionView, row, created_by_name=names.get(row.created_by))
        for row in rows
    ]


def _newest_states(
    dataset_id: str, version: int, *conditions: ColumnElement[bool]
) -> Select[DatasetItemState]:
    """The newest state up to a version of each item that the conditions on it select, in their order."""
    return (
        select(DatasetItemState)
        .ext(distinct_on(DatasetItemState.position))
        .where(
            DatasetItemState.dataset_id == dataset_id,
            DatasetItemState.version <= version,
            *conditions,
        )
        .order_by(DatasetItemState.position, DatasetItemState.version.desc())
    )


def read_items(
    session: Session,
    dataset_id: str,
    version: int,
    *,
    after: int = -1,
    limit: int = READ_ITEMS,
    is_retired: bool = False,
) -> list[DatasetItemState]:
    """The items of a version after a position, or those that were retired until then; at most `limit`."""
    newest = _newest_states(dataset_id, version, DatasetItemState.position > after).subquery()
    state = aliased(DatasetItemState, newest)
    statement = select(state).where(state.is_retired.is_(is_retired))
    return list(session.scalars(statement.order_by(state.position).limit(limit)))


def iter_items(
    session: Session, dataset_id: str, version: int, *, is_retired: bool = False
) -> Iterator[DatasetItemState]:
    """All items of a version in their order, read in batches; or those that were retired until then."""
    after = -1
    while rows := read_items(session, dataset_id, version, after=after, is_retired=is_retired):
        yield from rows
        after = rows[-1].position


def iter_items_of(db: Database, dataset_id: str, version: int) -> Iterator[DatasetItemState]:
    """All items of a version, for a reader who may be slow: each batch in a transaction of its own."""
    after = -1
    while True:
        with db.read() as session:
            rows = read_items(session, dataset_id, version, after=after)
        if not rows:
            return
        yield from rows
        after = rows[-1].position


def find_items(
    session: Session, dataset_id: str, version: int, item_ids: Sequence[str]
) -> dict[str, DatasetItemState]:
    """The newest states of items up to a version by item ID, also of retired ones."""
    states: dict[str, DatasetItemState] = {}
    for batch in batched(item_ids):
        rows = session.scalars(
            _newest_states(dataset_id, version, DatasetItemState.item_id.in_(batch))
        )
        states |= {row.item_id: row for row in rows}
    return states


def list_items_page(
    session: Session, dataset: Dataset, version: int, query: PageQuery
) -> PageRows[DatasetItemState]:
    """One page of the items of a version, in their order. Raises: `BadCursor`."""
    after = -1
    if query.cursor:
        [position] = read_cursor([DatasetItemState.position], query.cursor)
        assert isinstance(position, int)
        after = position
    rows = read_items(session, dataset.id, version, after=after, limit=query.limit + 1)
    page = rows[: query.limit]
    is_last = len(rows) <= query.limit
    return PageRows(page, None if is_last else encode_cursor([page[-1].position]))


def get_item(session: Session, dataset: Dataset, item_id: str, version: int) -> DatasetItemState:
    """An item of a version, also a retired one. Raises: `ItemNotFound`."""
    states = find_items(session, dataset.id, version, [item_id])
    return ItemNotFound.unless(states.get(item_id))


def list_item_states(
    session: Session, dataset_id: str, item_id: str, query: PageQuery
) -> PageRows[DatasetItemState]:
    """What the versions of a dataset made of an item, newest first."""
    of_item = select(DatasetItemState).where(
        DatasetItemState.dataset_id == dataset_id, DatasetItemState.item_id == item_id
    )
    return select_page(session, of_item, keys=[DatasetItemState.version], query=query)


def read_edited_items(
    session: Session, dataset: Dataset, item_ids: Sequence[str] | None
) -> dict[str, ItemState]:
    """The newest states of items as the rules of an edit need them; of all items without IDs."""
    if item_ids is None:
        rows = [
            *iter_items(session, dataset.id, dataset.version),
            *iter_items(session, dataset.id, dataset.version, is_retired=True),
        ]
    else:
        rows = [*find_items(session, dataset.id, dataset.version, item_ids).values()]
    first = _first_questions(session, dataset.id, [row for row in rows if row.question is not None])
    return {
        row.item_id: ItemState(
            item=item_of_state(row, is_tagged=False),
            position=row.position,
            first_question=first.get(row.position) or digest_of_question(row.input or ""),
            is_retired=row.is_retired,
        )
        for row in rows
    }


def _first_questions(
    session: Session, dataset_id: str, rows: Sequence[DatasetItemState]
) -> dict[int, str]:
    """The digests of what reworded items asked first, by their positions."""
    questions: dict[int, str] = {}
    for batch in batched([row.position for row in rows]):
        first = (
            select(DatasetItemState.position, DatasetItemState.input)
            .ext(distinct_on(DatasetItemState.position))
            .where(DatasetItemState.dataset_id == dataset_id, DatasetItemState.position.in_(batch))
            .order_by(DatasetItemState.position, DatasetItemState.version)
        )
        questions |= {row[0]: digest_of_question(row[1] or "") for row in session.execute(first)}
    return questions


def next_position(session: Session, dataset_id: str) -> int:
    """The position of the next new item."""
    last = select(func.max(DatasetItemState.position)).where(
        DatasetItemState.dataset_id == dataset_id
    )
    newest = session.scalar(last)
    return 0 if newest is None else newest + 1


def list_changed_since(
    session: Session, dataset_id: str, version: int, item_ids: Sequence[str] | None
) -> list[DatasetItemState]:
    """The states of items that versions after this one wrote, of any item without IDs; oldest first."""
    statement = (
        select(DatasetItemState)
        .where(DatasetItemState.dataset_id == dataset_id, DatasetItemState.version > version)
        .order_by(DatasetItemState.version, DatasetItemState.position)
        .limit(MAX_NAMED + 1)
    )
    if item_ids is None:
        return list(session.scalars(statement))
    changed: list[DatasetItemState] = []
    for batch in batched(item_ids):
        changed += session.scalars(statement.where(DatasetItemState.item_id.in_(batch)))
    return changed[: MAX_NAMED + 1]


def list_edited_ids(session: Session, dataset_id: str, version: int) -> set[str]:
    """The IDs of the items that versions after this one changed, added or retired."""
    statement = select(DatasetItemState.item_id).where(
        DatasetItemState.dataset_id == dataset_id, DatasetItemState.version > version
    )
    return set(session.scalars(statement.distinct()))


def item_of_state(row: DatasetItemState, *, is_tagged: bool = True) -> DatasetItem:
    """The item of a row; with the tag of its task, where it does not ask what it asked first."""
    tag = (f"{TASK_TAG}{row.question}",) if is_tagged and row.question else ()
    return DatasetItem(
        id=row.item_id,
        input=row.input or "",
        expected_output=row.expected_output,
        expected_any=tuple(row.expected_any),
        expected_all=tuple(row.expected_all),
        tags=(*row.tags, *tag),
        attributes=row.attributes,
    )


@dataclass(frozen=True, slots=True)
class VersionItems:
    """The items of a version by ID, and the IDs of those that were retired until then."""

    items: Mapping[str, DatasetItem]
    retired: frozenset[str]


def load_version(session: Session, name: str, version: int) -> VersionItems:
    """The items of a version of the dataset with a name. Raises: `DatasetNotFound`."""
    dataset = DatasetNotFound.unless(find_dataset(session, name))
    items = {row.item_id: item_of_state(row) for row in iter_items(session, dataset.id, version)}
    retired = iter_items(session, dataset.id, version, is_retired=True)
    return VersionItems(items, frozenset(row.item_id for row in retired))
