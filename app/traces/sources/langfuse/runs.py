"""What a reader is made of and looks in: the dataset, the API, and errors in the user's words."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Final

from app.core.http.throttle import CancelToken
from app.core.resources import Resources
from app.traces.registry import SourceRun, TraceQuery
from app.traces.sources.langfuse.client import (
    LangfuseClient,
    is_path_segment,
    open_client,
    quote_segment,
    require_credentials,
)
from app.traces.sources.langfuse.errors import (
    BadResponse,
    DatasetNotFound,
    NotFoundError,
    PageTooLarge,
    RunNotFound,
)
from app.traces.sources.langfuse.page_pagination import fetch_page, iter_pages
from app.traces.sources.langfuse.payload import JSON, require_text
from app.traces.sources.langfuse.reader import (
    ApiVersionMismatch,
    ExperimentRun,
    LangfuseDataset,
    RunReader,
    make_trace_link,
)
from app.traces.sources.langfuse.retry import LangfusePolicy
from app.traces.sources.langfuse.v3 import V3Reader
from app.traces.sources.langfuse.v4 import V4Reader

API_VERSIONS: Final = ("v4", "v3")
DATASETS_PER_PAGE: Final = 100


def find_dataset(client: LangfuseClient, name: str) -> LangfuseDataset:
    """The dataset of that name. Raises: `DatasetNotFound`."""
    try:
        document = _fetch_dataset(client, name)
    except NotFoundError as error:
        raise DatasetNotFound(
            f"the Langfuse project has no dataset {name!r} ({error.detail or 'not found'})."
            " Correct the benchmark's datasetRef, or give the agent the keys of the project"
            " that holds it."
        ) from None
    return LangfuseDataset(id=require_text(document, "id", "a dataset"), name=name)


def _fetch_dataset(client: LangfuseClient, name: str) -> JSON:
    """Raises: `NotThere`."""
    if is_path_segment(name):
        return client.get(f"/v2/datasets/{quote_segment(name)}")
    read = partial(fetch_page, client, "/v2/datasets", {"limit": DATASETS_PER_PAGE})
    pages = iter_pages(read, limit=DATASETS_PER_PAGE, rows_name="datasets")
    listed = (row for page in pages for row in page.rows if row.get("name") == name)
    if (found := next(listed, None)) is None:
        raise NotFoundError("none of those that it lists")
    return found


def missing_dataset_ref() -> DatasetNotFound:
    return DatasetNotFound(
        "the benchmark names neither a dataset nor a run; set its datasetRef to the name of a"
        " dataset in Langfuse"
    )


def open_reader(
    client: LangfuseClient,
    query: TraceQuery,
    api: str,
    project_id: str | None,
    now_ms: Callable[[], int],
) -> RunReader:
    """What reads runs through one generation of the API."""
    link = make_trace_link(client.credentials.host, project_id)
    if api == "v3":
        return V3Reader(client=client, link=link)
    return V4Reader(client=client, link=link, now_ms=now_ms, late_scores=query.late_scores)


@contextmanager
def translate_errors() -> Iterator[None]:
    """What a reader did not expect, as an error with a remedy."""
    try:
        yield
    except PageTooLarge as refusal:
        raise refusal.final_error from None
    except ApiVersionMismatch as error:
        raise BadResponse(
            "the server does not offer the API that holds runs"
            f" ({error.detail or 'not found'}); check that langfuseUrl is the address of a Langfuse"
            " server of version 3 or newer"
        ) from None
    except NotFoundError as error:
        raise RunNotFound(
            f"the run disappeared while it was read ({error.detail or 'not found'}); start a new"
            " run of the benchmark"
        ) from None


# Whoever looks for new runs looks again later: it need not wait for long.
LISTING_POLICY: Final = LangfusePolicy(
    request_s=20.0, retries=2, first_wait_s=0.5, rate_limit_s=30.0
)


def list_runs(resources: Resources, query: TraceQuery) -> Sequence[SourceRun]:
    """The newest runs of the dataset, the newest first: a hundred, or twenty of the older API.

    A server that offers both generations of the API is asked for both. A run is complete once
    nothing has happened in it for as long as a collection would wait for more of it.
    Raises: `CollectionFailed` with its codes.
    """
    access = require_credentials(query.url, query.public_key, query.secret_key)
    now_ms = int(resources.clock().timestamp() * 1000)
    with (
        open_client(resources, access, pause=CancelToken().pause, policy=LISTING_POLICY) as client,
        translate_errors(),
    ):
        found = _list_experiment_runs(client, query, lambda: now_ms)
    settled_before = now_ms - int(LISTING_POLICY.active_run_s * 1000)
    newest = sorted(found, key=lambda run: (run.start, run.id), reverse=True)
    return [_to_source_run(run, complete=run.end <= settled_before) for run in newest]


def _list_experiment_runs(
    client: LangfuseClient, query: TraceQuery, now_ms: Callable[[], int]
) -> list[ExperimentRun]:
    """Raises: `OtherGeneration` when the server offers no generation at all."""
    if query.dataset_ref is None:
        raise missing_dataset_ref()
    dataset = find_dataset(client, query.dataset_ref)
    found: dict[str, ExperimentRun] = {}
    refused: list[str] = []
    for api in API_VERSIONS:
        reader = open_reader(client, query, api, None, now_ms)
        try:
            runs = reader.list_runs(dataset)
        except ApiVersionMismatch as other:
            refused.append(f"{api}: {other.detail or 'not found'}")
            continue
        for run in runs:
            found.setdefault(run.id, run)
    if len(refused) == len(API_VERSIONS):
        raise ApiVersionMismatch("; ".join(refused))
    return list(found.values())


def _to_source_run(run: ExperimentRun, *, complete: bool) -> SourceRun:
    return SourceRun(
        id=run.id,
        name=run.name,
        started_at=_to_datetime(run.start),
        ended_at=_to_datetime(run.end),
        items=run.item_count,
        complete=complete and run.item_count > 0,
    )


def _to_datetime(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
