"""The questions and expected answers of the items of a dataset, wherever they live."""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.core.db import stream_rows
from mosaico.overview.dataset_health.same_questions import AskedItem
from mosaico.run_store.models import BenchmarkRun
from mosaico.traces.datasets.queries import iter_items
from mosaico.traces.models import Dataset, DatasetItemState

# As many as a dataset that lives here has at most.
MAX_ASKED: Final = 50_000
# The trials of an item have one question.
_ITEMS_OF_RUN: Final = text(
    """
    SELECT DISTINCT ON (item_id) item_id, input, expected_output, expected_any, expected_all
    FROM collected_traces
    WHERE collection_id = :collection AND input IS NOT NULL
    ORDER BY item_id, position
    LIMIT :limit
    """
)


def iter_dataset_items(session: Session, dataset: Dataset) -> Iterator[AskedItem]:
    """The items of the newest version of a dataset, without those whose texts were erased."""
    for state in iter_items(session, dataset.id, dataset.version):
        if state.input is not None:
            yield AskedItem(state.item_id, state.input, _expected_of(state))


def iter_run_items(session: Session, run: BenchmarkRun) -> Iterator[AskedItem]:
    """The items of a run as it read them, at most `MAX_ASKED`."""
    parameters = {"collection": run.collection_id, "limit": MAX_ASKED}
    for item_id, question, expected, any_of, all_of in stream_rows(
        session, _ITEMS_OF_RUN, parameters
    ):
        yield AskedItem(item_id, question, _list_expected(expected, any_of, all_of))


def _expected_of(state: DatasetItemState) -> list[str]:
    return _list_expected(state.expected_output, state.expected_any, state.expected_all)


def _list_expected(
    expected: str | None, any_of: list[str] | None, all_of: list[str] | None
) -> list[str]:
    """All expected answers; of several, the first one is also `expected`."""
    return list(any_of or all_of or ([] if expected is None else [expected]))
