"""Sends failing items to Langfuse: to an annotation queue, where people look, or to a dataset."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import httpx
from langfuse import Langfuse
from langfuse.api import NotFoundError
from langfuse.api.annotation_queues import AnnotationQueueObjectType
from langfuse.api.core import ApiError

from mosaico.harness.langfuse_export import (
    ExportFailed,
    LangfuseProject,
    connect,
    describe_api_error,
)

ITEMS_PER_PAGE: Final = 100


class FailureTargets(NamedTuple):
    """The targets of failing items: the ID of an annotation queue, the name of a dataset."""

    queue: str | None
    dataset: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingItem:
    """An item that an agent failed; `trace_ids` are its failing attempts in Langfuse, if any."""

    id: str
    input: str
    expected_output: str | None
    reason: str
    trace_ids: Sequence[str] = ()


def require_queue(project: LangfuseProject, queue: str) -> None:
    """Check that an annotation queue exists. Raises: ExportFailed."""
    with _translated(project, f"the annotation queue {queue!r}"):
        connect(project).sdk.api.annotation_queues.get_queue(queue)


def send_failing_items(
    project: LangfuseProject, items: Sequence[FailingItem], targets: FailureTargets
) -> None:
    """Add the items where they are not yet, so that a repetition adds nothing.

    Raises: ExportFailed.
    """
    sdk = connect(project).sdk
    if targets.queue is not None:
        with _translated(project, f"the annotation queue {targets.queue!r}"):
            _add_to_queue(sdk, targets.queue, items)
    if targets.dataset is not None:
        with _translated(project, f"the dataset {targets.dataset!r}"):
            _add_to_dataset(sdk, targets.dataset, items)


def _add_to_queue(sdk: Langfuse, queue: str, items: Sequence[FailingItem]) -> None:
    # The server accepts a trace twice, so what is there is read first.
    queued = set(_iter_queued(sdk, queue))
    for trace_id in (trace_id for item in items for trace_id in item.trace_ids):
        if trace_id not in queued:
            sdk.api.annotation_queues.create_queue_item(
                queue, object_id=trace_id, object_type=AnnotationQueueObjectType.TRACE
            )


def _iter_queued(sdk: Langfuse, queue: str) -> Iterator[str]:
    page, is_last = 1, False
    while not is_last:
        listed = sdk.api.annotation_queues.list_queue_items(queue, page=page, limit=ITEMS_PER_PAGE)
        yield from (item.object_id for item in listed.data)
        page, is_last = page + 1, len(listed.data) < ITEMS_PER_PAGE


def _add_to_dataset(sdk: Langfuse, dataset: str, items: Sequence[FailingItem]) -> None:
    try:
        sdk.get_dataset(dataset, fetch_items_page_size=1)
    except NotFoundError:
        sdk.create_dataset(name=dataset, description="Items that an agent failed")
    for item in items:
        digest = hashlib.sha256(f"{dataset}/{item.id}/{item.input}".encode()).hexdigest()[:12]
        sdk.create_dataset_item(
            dataset_name=dataset,
            # The same item again replaces itself.
            id=f"{item.id[:200]}-{digest}",
            input=item.input,
            expected_output=item.expected_output,
            metadata={"item": item.id, "reason": item.reason},
            source_trace_id=item.trace_ids[0] if item.trace_ids else None,
        )


@contextmanager
def _translated(project: LangfuseProject, target: str) -> Iterator[None]:
    try:
        yield
    except (ApiError, NotFoundError, httpx.HTTPError) as error:
        raise ExportFailed(
            f"{target} of Langfuse at {project.url}: {describe_api_error(error)}; check the name and"
            " the keys in LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"
        ) from None
