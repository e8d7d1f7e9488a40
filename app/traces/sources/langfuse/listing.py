"""The runs that a Langfuse project holds of a dataset."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from app.core.http.throttle import CancelToken
from app.core.resources import Resources
from app.traces.registry import SourceRun, TraceQuery
from app.traces.sources.langfuse.client import Client, access_of, open_client
from app.traces.sources.langfuse.lookup import (
    GENERATIONS,
    find_dataset,
    no_dataset,
    reader_of,
    told,
)
from app.traces.sources.langfuse.retry import Patience
from app.traces.sources.langfuse.runs import FoundRun, OtherGeneration

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
