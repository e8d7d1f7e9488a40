"""What a reader is made of and looks in: the dataset, the API, and errors in the user's words."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Final

from app.core.http.throttle import CancelToken
from app.core.resources import Resources
from app.traces.registry import SourceRun, TraceQuery
from app.traces.sources.langfuse.client import Client, access_of, is_segment, open_client, segment
from app.traces.sources.langfuse.errors import (
    AskForLess,
    BadResponse,
    DatasetNotFound,
    NotThere,
    RunNotFound,
)
from app.traces.sources.langfuse.page_pagination import each_page, read_page
from app.traces.sources.langfuse.payload import JSON, required_text
from app.traces.sources.langfuse.reader import Dataset, FoundRun, OtherGeneration, Reader, link_to
from app.traces.sources.langfuse.retry import Patience
from app.traces.sources.langfuse.v3 import V3Reader
from app.traces.sources.langfuse.v4 import V4Reader

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


# Whoever looks for new runs looks again later: it need not wait for long.
BRIEF: Final = Patience(request_s=20.0, retries=2, first_wait_s=0.5, rate_limit_s=30.0)


def list_runs(resources: Resources, query: TraceQuery) -> Sequence[SourceRun]:
    """The newest runs of the dataset, the newest first: a hundred, or twenty of the older API.

    A server that offers both generations of the API is asked for both. A run is complete once
    nothing has happened in it for as long as a collection would wait for more of it.
    Raises: `CollectionFailed` with its codes.
    """
    access = access_of(query.url, query.public_key, query.secret_key)
    now_ms = int(resources.clock().timestamp() * 1000)
    with (
        open_client(resources, access, pause=CancelToken().pause, patience=BRIEF) as client,
        told(),
    ):
        found = _runs(client, query, lambda: now_ms)
    settled_before = now_ms - int(BRIEF.settling_s * 1000)
    newest = sorted(found, key=lambda run: (run.start, run.id), reverse=True)
    return [_source_run(run, complete=run.end <= settled_before) for run in newest]


def _runs(client: Client, query: TraceQuery, now_ms: Callable[[], int]) -> list[FoundRun]:
    """Raises: `OtherGeneration` when the server offers no generation at all."""
    if query.dataset_ref is None:
        raise no_dataset()
    dataset = find_dataset(client, query.dataset_ref)
    found: dict[str, FoundRun] = {}
    refused: list[str] = []
    for api in GENERATIONS:
        reader = reader_of(client, query, api, None, now_ms)
        try:
            runs = reader.runs(dataset)
        except OtherGeneration as other:
            refused.append(f"{api}: {other.detail or 'not found'}")
            continue
        for run in runs:
            found.setdefault(run.id, run)
    if len(refused) == len(GENERATIONS):
        raise OtherGeneration("; ".join(refused))
    return list(found.values())


def _source_run(run: FoundRun, *, complete: bool) -> SourceRun:
    return SourceRun(
        id=run.id,
        name=run.name,
        started_at=_time(run.start),
        ended_at=_time(run.end),
        items=run.count,
        complete=complete and run.count > 0,
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
