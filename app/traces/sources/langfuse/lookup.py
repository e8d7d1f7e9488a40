"""What a reader is made of and looks in: the dataset, the API, and errors in the user's words."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from app.traces.registry import TraceQuery
from app.traces.sources.langfuse.client import JSON, Client, is_segment, segment
from app.traces.sources.langfuse.failures import (
    AskForLess,
    BadResponse,
    DatasetNotFound,
    NotThere,
    RunNotFound,
)
from app.traces.sources.langfuse.numbered import each_page, read_page
from app.traces.sources.langfuse.runs import Dataset, OtherGeneration, Reader, link_to
from app.traces.sources.langfuse.v3 import V3Reader
from app.traces.sources.langfuse.v4 import V4Reader
from app.traces.sources.langfuse.wire import required_text

GENERATIONS: Final = ("v4", "v3")
DATASETS: Final = 100


def find_dataset(client: Client, name: str) -> Dataset:
    """The dataset of that name. Raises: `DatasetNotFound`."""
    try:
        document = _dataset_named(client, name)
    except NotThere as error:
        raise DatasetNotFound(
            f"the Langfuse project has no dataset {name!r} ({error.detail or 'not found'})."
            " Correct the benchmark's datasetRef, or give the agent the keys of the project"
            " that holds it."
        ) from None
    return Dataset(id=required_text(document, "id", "a dataset"), name=name)


def _dataset_named(client: Client, name: str) -> JSON:
    """Raises: `NotThere`."""
    if is_segment(name):
        return client.get(f"/v2/datasets/{segment(name)}")
    read = partial(read_page, client, "/v2/datasets", {"limit": DATASETS})
    pages = each_page(read, limit=DATASETS, what="datasets")
    listed = (row for page in pages for row in page.rows if row.get("name") == name)
    if (found := next(listed, None)) is None:
        raise NotThere("none of those that it lists")
    return found


def no_dataset() -> DatasetNotFound:
    return DatasetNotFound(
        "the benchmark names neither a dataset nor a run; set its datasetRef to the name of a"
        " dataset in Langfuse"
    )


def reader_of(
    client: Client, query: TraceQuery, api: str, project_id: str | None, now_ms: Callable[[], int]
) -> Reader:
    """What reads runs through one generation of the API."""
    link = link_to(client.access.host, project_id)
    if api == "v3":
        return V3Reader(client=client, link=link)
    return V4Reader(client=client, link=link, now_ms=now_ms, late_scores=query.late_scores)


@contextmanager
def told() -> Iterator[None]:
    """What a reader did not expect, as an error with a remedy."""
    try:
        yield
    except AskForLess as refusal:
        raise refusal.instead from None
    except OtherGeneration as error:
        raise BadResponse(
            "the server does not offer the API that holds runs"
            f" ({error.detail or 'not found'}); check that langfuseUrl is the address of a Langfuse"
            " server of version 3 or newer"
        ) from None
    except NotThere as error:
        raise RunNotFound(
            f"the run disappeared while it was read ({error.detail or 'not found'}); start a new"
            " run of the benchmark"
        ) from None
