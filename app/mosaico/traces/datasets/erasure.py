"""Erases the texts of items, for a request of deletion: the one change that reaches versions of the past."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, and_, or_, select, tuple_, update
from sqlalchemy.orm import Session

from mosaico.core.batches import batched
from mosaico.core.db import Database
from mosaico.traces.models import Dataset, DatasetItemState

# The attributes that say when texts were erased, and whose they are.
ERASED: Final = "erased"
USER: Final = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedItem:
    """The items to erase: those with an ID, of one dataset or of any, and those that were made of their traces under
    another ID; or those whose attribute `user` names somebody.
    """

    item_id: str | None
    user_id: str | None
    dataset: str | None

    def condition(self) -> ColumnElement[bool]:
        """Whether a state of an item is one of the subject."""
        if self.item_id is None:
            user: ColumnElement[str] = DatasetItemState.attributes[USER].astext
            return user == self.user_id
        of_item: ColumnElement[bool] = DatasetItemState.item_id == self.item_id
        made_of: ColumnElement[bool] = DatasetItemState.origin["item_id"].astext == self.item_id
        if self.dataset is None:
            return or_(of_item, made_of)
        named = select(Dataset.id).where(Dataset.name == self.dataset)
        is_of_dataset: ColumnElement[bool] = (
            DatasetItemState.origin["dataset"].astext == self.dataset
        )
        return or_(
            and_(of_item, DatasetItemState.dataset_id.in_(named)), and_(made_of, is_of_dataset)
        )


def list_datasets_with(session: Session, item_id: str) -> list[str]:
    """The names of the datasets that have, or had, an item with an ID."""
    statement = (
        select(Dataset.name)
        .join(DatasetItemState, DatasetItemState.dataset_id == Dataset.id)
        .where(DatasetItemState.item_id == item_id)
    )
    return list(session.scalars(statement.distinct()))


def erase_items(db: Database, erased: ErasedItem, now: datetime) -> int:
    """Erase the texts of items in all versions, in transactions of a batch each; returns the number of items."""
    state = DatasetItemState
    keys = (state.dataset_id, state.position)
    with db.read() as session:
        # Also the versions in which the item did not name the user.
        items = session.execute(select(*keys).where(erased.condition()).distinct()).all()
    erased_items = 0
    for batch in batched([(row[0], row[1]) for row in items]):
        statement = (
            update(state)
            .where(tuple_(*keys).in_(batch), state.input.is_not(None))
            .values(
                input=None,
                question=None,
                expected_output=None,
                expected_any=[],
                expected_all=[],
                attributes={ERASED: now.date().isoformat()},
            )
            .returning(*keys)
        )
        with db.begin() as session:
            erased_items += len({tuple(row) for row in session.execute(statement)})
    return erased_items
