"""Wire schemas of datasets, their versions and items."""

from datetime import datetime
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from mosaico.core.schemas import ListFilter, ShortText, StoredText, WireModel
from mosaico.traces.storable_traces import MAX_ATTRIBUTES, MAX_TEXT_CHARS
from mosaico.traces.types import MAX_ID_CHARS

MAX_EDITED: Final = 1_000
MAX_ANSWERS: Final = 100

ItemId = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_CHARS)]
ItemText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT_CHARS)]


class ItemContent(WireModel):
    """An item: what an agent is asked, and the expected answer; several of them as in a trace."""

    id: ItemId
    input: ItemText
    expected_output: ItemText | None = None
    expected_any: list[ItemText] = Field(default_factory=list, max_length=MAX_ANSWERS)
    expected_all: list[ItemText] = Field(default_factory=list, max_length=MAX_ANSWERS)
    tags: list[ShortText] = Field(default_factory=list, max_length=MAX_ATTRIBUTES)
    attributes: dict[str, StoredText] = Field(default_factory=dict, max_length=MAX_ATTRIBUTES)


class DatasetCreate(WireModel):
    """A new dataset without items. Benchmarks name it as their `datasetRef`."""

    name: ShortText


class DatasetView(WireModel):
    """A dataset whose items live here, with its newest version; 0 before the first edit."""

    id: str
    name: str
    version: int
    item_count: int
    created_at: datetime
    updated_at: datetime


class DatasetEdit(WireModel):
    """An edit against a version: `items` are added or replace those with their IDs, `retire` are IDs of items."""

    base_version: Annotated[int, Field(ge=0)]
    items: list[ItemContent] = Field(default_factory=list, max_length=MAX_EDITED)
    retire: list[ItemId] = Field(default_factory=list, max_length=MAX_EDITED)
    note: ShortText | None = None


class DatasetVersionView(WireModel):
    """One version: what its edit added, changed and retired, by whom and why. It never changes."""

    version: int
    item_count: int
    added: int
    changed: int
    retired: int
    note: StoredText | None
    created_by: str
    created_by_name: StoredText | None = None
    created_at: datetime


class EditResult(WireModel):
    """The version after an edit; without a difference it is the version from before, and `isNew` is false."""

    dataset_id: str
    name: str
    version: int
    is_new: bool
    item_count: int
    added: int
    changed: int
    retired: int


class ItemOrigin(WireModel):
    """The trace that an item was made from; `itemId` and `dataset` are those of the trace, as far as is known."""

    run_id: str | None = None
    upload_id: str | None = None
    trace_id: str
    item_id: StoredText | None = None
    dataset: Annotated[
        StoredText | None, Field(description="Dataset of the run or the upload that has the trace.")
    ] = None


class DatasetItemStateView(WireModel):
    """An item of a version. `version` is the one that changed it last. Without an `input`, its texts were erased."""

    id: str = Field(validation_alias="item_id")
    version: int
    is_retired: bool
    input: StoredText | None
    expected_output: StoredText | None
    expected_any: list[StoredText]
    expected_all: list[StoredText]
    tags: list[StoredText]
    attributes: dict[str, StoredText]
    origin: ItemOrigin | None


class TraceItemCreate(WireModel):
    """An item from a trace, into the dataset of this name, which is created where it is missing."""

    dataset: ShortText
    trace_id: Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_CHARS)]
    item_id: ItemId | None = None
    expected_output: ItemText | None = None
    note: ShortText | None = None


class DatasetFilter(ListFilter):
    """Filter of datasets."""

    name: str | None = Field(default=None, description="Filter by name of the dataset.")
