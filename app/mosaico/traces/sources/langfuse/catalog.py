"""Looks up what a Langfuse server offers to a pair of keys: its API version, its project, datasets and runs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from mosaico.core.clock import utc_now
from mosaico.core.http.throttle import CancelToken
from mosaico.core.ids import is_path_segment
from mosaico.core.resources import Resources
from mosaico.traces.execution.items import item_of_document
from mosaico.traces.registry import SourceCheck, SourceRun, TraceQuery
from mosaico.traces.sources.langfuse.client import (
    LangfuseClient,
    Parameters,
    fetch_page,
    fetch_page_in_parts,
    get_rows,
    iter_pages,
    open_client,
    quote_segment,
    require_credentials,
)
from mosaico.traces.sources.langfuse.failures import (
    BadResponse,
    LangfuseAuthError,
    LangfusePolicy,
    NotFoundError,
    PageTooLarge,
    SourceDatasetNotFound,
    SourceRunNotFound,
)
from mosaico.traces.sources.langfuse.json_fields import (
    JSON,
    format_time,
    get_text,
    require_text,
)
from mosaico.traces.sources.langfuse.reader import (
    ApiVersionMismatch,
    ExperimentRun,
    LangfuseDataset,
    RunReader,
    make_trace_link,
)
from mosaico.traces.sources.langfuse.settling import settle_for_ms
from mosaico.traces.sources.langfuse.v3_runs import V3Reader
from mosaico.traces.sources.langfuse.v4_runs import V4Reader
from mosaico.traces.types import DatasetItem

# A person waits for the check and can repeat it, so the waits are short.
CHECK_POLICY: Final = LangfusePolicy(request_s=8.0, retries=1, first_wait_s=0.5, rate_limit_s=3.0)
# In the order in which they are tried.
API_VERSIONS: Final = ("v4", "v3")
DATASETS_PER_PAGE: Final = 100
# A poll for new runs is repeated anyway, so it does not wait long.
LISTING_POLICY: Final = LangfusePolicy(
    request_s=20.0, retries=2, first_wait_s=0.5, rate_limit_s=30.0
)
ITEMS_PER_PAGE: Final = 50
ACTIVE: Final = "ACTIVE"
ITEM_FIELDS: Final = ("id", "input", "expectedOutput", "metadata", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """The newest API version that a server answers, and the project of the key."""

    api: str
    project_id: str | None


def check_server(resources: Resources, query: TraceQuery) -> SourceCheck:
    """Check the address and the keys of an agent.

    Raises: `CollectionFailed` with a code and what to change.
    """
    credentials = require_credentials(query.url, query.public_key, query.secret_key)
    with open_client(
        resources, credentials, pause=CancelToken().pause, policy=CHECK_POLICY
    ) as client:
        try:
            version, project = _fetch_version(client), _fetch_project(client)
            api = _detect_api(client)
        except PageTooLarge as error:
            raise error.final_error from None
    if project is None:
        raise LangfuseAuthError(
            "the keys belong to no project; set the agent's keys to those of the project that holds"
            " its traces"
        )
    return SourceCheck(api=api, version=version, project=get_text(project, "name"))


def detect_server(client: LangfuseClient) -> ServerInfo:
    """The newest API version of the server, and the project of the keys."""
    return ServerInfo(project_id=find_project_id(client), api=_detect_api(client))


def find_project_id(client: LangfuseClient) -> str | None:
    """The ID of the project of the keys. Raises: `LangfuseAuthError` for rejected keys."""
    project = _fetch_project(client)
    return None if project is None else get_text(project, "id")


def _fetch_project(client: LangfuseClient) -> JSON | None:
    try:
        projects = get_rows(client.get("/projects"), "GET /projects")
    except NotFoundError as error:
        raise BadResponse(
            f"the server has no Langfuse API ({error.detail or 'not found'}); check that"
            " langfuseUrl is the address of a Langfuse server of version 3 or newer"
        ) from None
    return projects[0] if projects else None


def _fetch_version(client: LangfuseClient) -> str | None:
    try:
        return get_text(client.get("/health"), "version")
    except NotFoundError:
        return None


def _detect_api(client: LangfuseClient) -> str:
    """The newest API version that the server answers; a v3 server answers `/experiments` with 404."""
    now = format_time(int(utc_now().timestamp() * 1000))
    try:
        client.get("/experiments", {"fromStartTime": now, "limit": 1})
    except NotFoundError:
        return "v3"
    return "v4"


def find_dataset(client: LangfuseClient, name: str | None) -> LangfuseDataset:
    """Look up the dataset of a benchmark by name. Raises: `SourceDatasetNotFound`."""
    if name is None:
        raise SourceDatasetNotFound(
            "the benchmark has neither a dataset nor a run name; set its datasetRef to the name of "
            "a dataset in Langfuse"
        )
    try:
        document = _fetch_dataset(client, name)
    except NotFoundError as error:
        raise SourceDatasetNotFound(
            f"the Langfuse project has no dataset {name!r} ({error.detail or 'not found'})."
            " Correct the benchmark's datasetRef, or set the agent's keys to those of the project"
            " that holds the dataset."
        ) from None
    return LangfuseDataset(id=require_text(document, "id", "a dataset"), name=name)


def _fetch_dataset(client: LangfuseClient, name: str) -> JSON:
    """Raises: `NotFoundError`."""
    if is_path_segment(name):
        return client.get(f"/v2/datasets/{quote_segment(name)}")
    # A dataset named `.` or `..` cannot be part of a path; only the list contains it.
    dataset = next((row for row in _iter_datasets(client) if row.get("name") == name), None)
    if dataset is None:
        raise NotFoundError("it is not in the list of datasets")
    return dataset


def has_dataset(client: LangfuseClient, dataset_id: str) -> bool:
    """Return whether a dataset with this ID exists; only the list knows IDs."""
    return any(row.get("id") == dataset_id for row in _iter_datasets(client))


def _iter_datasets(client: LangfuseClient) -> Iterator[JSON]:
    fetch = partial(fetch_page, client, "/v2/datasets", {"limit": DATASETS_PER_PAGE})
    for page in iter_pages(fetch, limit=DATASETS_PER_PAGE, rows_name="datasets"):
        yield from page.rows


def open_reader(
    client: LangfuseClient,
    query: TraceQuery,
    api: str,
    project_id: str | None,
    now_ms: Callable[[], int],
) -> RunReader:
    """The reader for one API version; `now_ms` gives the current milliseconds since 1970."""
    link = make_trace_link(client.credentials.host, project_id)
    if api == "v3":
        return V3Reader(client=client, link=link, settle_ms=settle_for_ms(query))
    return V4Reader(
        client=client,
        link=link,
        now_ms=now_ms,
        late_scores=query.late_scores,
        settle_ms=settle_for_ms(query),
    )


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate the internal exceptions of readers into errors with a remedy for the user."""
    try:
        yield
    except PageTooLarge as error:
        raise error.final_error from None
    except ApiVersionMismatch as error:
        raise BadResponse(
            "the server does not offer an API that returns runs"
            f" ({error.detail or 'not found'}); check that langfuseUrl is the address of a Langfuse"
            " server of version 3 or newer"
        ) from None
    except NotFoundError as error:
        raise SourceRunNotFound(
            f"the run was deleted while it was read ({error.detail or 'not found'}); start a new"
            " run of the benchmark"
        ) from None


@contextmanager
def _listing_client(resources: Resources, query: TraceQuery) -> Iterator[LangfuseClient]:
    """Raises: `CollectionFailed` for the errors of the server."""
    credentials = require_credentials(query.url, query.public_key, query.secret_key)
    pause = CancelToken().pause
    with (
        open_client(resources, credentials, pause=pause, policy=LISTING_POLICY) as client,
        translate_errors(),
    ):
        yield client


def list_runs(resources: Resources, query: TraceQuery) -> Sequence[SourceRun]:
    """The newest runs of the dataset, newest first: up to 100 of API v4 and 20 of API v3.

    A server that offers both APIs is asked through both. A run is complete when it has had no
    activity for as long as a collection would wait for more.
    Raises: `CollectionFailed` with its codes.
    """
    now_ms = int(resources.clock().timestamp() * 1000)
    with _listing_client(resources, query) as client:
        runs = _list_experiment_runs(client, query, lambda: now_ms)
    complete_before = now_ms - int(LISTING_POLICY.active_run_s * 1000)
    # By their last activity: a run that repeats the name of an old one is not older than others.
    newest_first = sorted(runs, key=lambda run: (run.end, run.id), reverse=True)
    return [_to_source_run(run, complete=run.end <= complete_before) for run in newest_first]


def narrow_run(resources: Resources, query: TraceQuery, run: SourceRun) -> SourceRun:
    """The newest of the runs that share the ID of a listed run, as a collection would read it.

    Raises: `CollectionFailed` with its codes.
    """
    now_ms = int(resources.clock().timestamp() * 1000)
    with _listing_client(resources, query) as client:
        dataset = find_dataset(client, query.dataset_ref)
        for api in API_VERSIONS:
            reader = open_reader(client, query, api, None, lambda: now_ms)
            with suppress(ApiVersionMismatch):
                if (listed_run := reader.find_run(dataset, run.id)) is not None:
                    newest_run = reader.narrow(listed_run, None)
                    return _to_source_run(newest_run, complete=run.complete)
    return run


def _list_experiment_runs(
    client: LangfuseClient, query: TraceQuery, now_ms: Callable[[], int]
) -> list[ExperimentRun]:
    """Raises: `ApiVersionMismatch` when the server offers no API version."""
    dataset = find_dataset(client, query.dataset_ref)
    runs: dict[str, ExperimentRun] = {}
    rejections: list[str] = []
    for api in API_VERSIONS:
        reader = open_reader(client, query, api, None, now_ms)
        try:
            listed_runs = reader.list_runs(dataset)
        except ApiVersionMismatch as mismatch:
            rejections.append(f"{api}: {mismatch.detail or 'not found'}")
            continue
        for run in listed_runs:
            runs.setdefault(run.id, run)  # both APIs use one ID for a run; v4 knows more of it
    if len(rejections) == len(API_VERSIONS):
        raise ApiVersionMismatch("; ".join(rejections))
    return list(runs.values())


def _to_source_run(run: ExperimentRun, *, complete: bool) -> SourceRun:
    return SourceRun(
        id=run.source_id,
        name=run.name,
        started_at=_to_datetime(run.start),
        ended_at=_to_datetime(run.end),
        items=run.item_count,
        complete=complete and run.item_count > 0,
    )


def _to_datetime(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def list_items(resources: Resources, query: TraceQuery) -> Iterator[DatasetItem]:
    """The active items of the query's dataset. Raises: `CollectionFailed` with its codes."""
    with _listing_client(resources, query) as client:
        dataset = find_dataset(client, query.dataset_ref)
        parameters: Parameters = {"datasetName": dataset.name, "limit": ITEMS_PER_PAGE}
        fetch = partial(
            fetch_page_in_parts, client, "/dataset-items", parameters, fields=ITEM_FIELDS
        )
        for page in iter_pages(fetch, limit=ITEMS_PER_PAGE, rows_name="items of a dataset"):
            for row in page.rows:
                if row.get("status") in (None, ACTIVE):
                    yield item_of_document(row)
