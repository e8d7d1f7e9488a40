"""Annotation queues: the server accepts an object twice, and does not check that it exists."""

from tests.support.langfuse.errors import not_found
from tests.support.langfuse.pagination import numbered_page, page_meta
from tests.support.langfuse.parameters import Parameters
from tests.support.langfuse.records import JSON
from tests.support.langfuse.store import Store
from tests.support.langfuse.writes import WriteRequest, WriteResponse

TIME = "2026-11-22T02:00:00.000Z"


def get_queue(store: Store, parameters: Parameters, queue: str) -> JSON:
    parameters.check()
    _require(store, queue)
    return {
        "id": queue,
        "name": queue,
        "scoreConfigIds": ["c"],
        "createdAt": TIME,
        "updatedAt": TIME,
    }


def list_queue_items(store: Store, parameters: Parameters, queue: str) -> JSON:
    page = parameters.number("page", default=1, least=1)
    limit = parameters.number("limit", default=50, least=1, most=100)
    parameters.check()
    _require(store, queue)
    items = store.annotation_queues[queue]
    rows = [_item_json(queue, trace_id) for trace_id in numbered_page(items, page, limit)]
    return {"data": rows, "meta": page_meta(page, limit, len(items))}


def create_queue_item(write: WriteRequest) -> WriteResponse:
    (queue,) = write.parts
    _require(write.store, queue)
    body = write.object()
    # No check for duplicates, as in Langfuse: whoever adds an object has to look for it first.
    write.store.annotation_queues[queue].append(body["objectId"])
    return WriteResponse(content=_item_json(queue, body["objectId"]))


def _item_json(queue: str, trace_id: str) -> JSON:
    return {
        "id": f"{queue}-{trace_id}",
        "queueId": queue,
        "objectId": trace_id,
        "objectType": "TRACE",
        "status": "PENDING",
        "createdAt": TIME,
        "updatedAt": TIME,
    }


def _require(store: Store, queue: str) -> None:
    if queue not in store.annotation_queues:
        raise not_found("Annotation queue not found")
