"""Calls of the service's REST API, for any HTTP client: a call yields the requests that it needs.

A client sends them: `ApiClient`, and `mosaico.AsyncClient` in an event loop. So requests, answers and the
order of requests are written once.
"""

from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote, unquote

import httpx
from pydantic import BaseModel

from mosaico.core.console.api_responses import API_PREFIX, JSON, parse_json, parse_response
from mosaico.core.console.short_ids import (
    FULL_LENGTH,
    GENERATED_ID_LISTS,
    LATEST,
    is_short_id,
)
from mosaico.core.console.terminal import WrongUsage

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
# A list is sent as one parameter per element.
QueryValue: TypeAlias = str | int | bool | list[str] | None
QueryParameters: TypeAlias = Mapping[str, QueryValue]
# A file that is sent chunk by chunk.
Chunks: TypeAlias = Iterable[bytes] | AsyncIterator[bytes]

MAX_PAGE_SIZE = 200
# The parameters that name resources, with the list of the resource.
ID_PARAMETERS = {"runId": "/benchmark-runs", "alertConfigId": "/alert-configs"}
# A short ID is one that a table showed: it is among the newest.
SEARCHED_IDS = 1000
RESPONSE_TIMEOUT_S = 60.0
# The service sends an event or a comment at least every 15 s.
# Four keep-alives may be late before the connection counts as broken.
STREAM_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to a path of the API; `options` are further arguments of `httpx.Client.request`."""

    method: str
    path: str
    parameters: QueryParameters = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `request` and `stream` of both clients of httpx."""
        return {
            "method": self.method,
            "url": f"{API_PREFIX}{self.path}",
            "params": self.parameters,
            **self.options,
        }


# Yields requests, gets the successful response to each, and returns the answer.
ApiCall: TypeAlias = Generator[ApiRequest, httpx.Response, T]


def post_request(path: str, body: JSON | None = None, *, once: str | None = None) -> ApiRequest:
    """A POST request, with or without a body. Requests with the same `once` create one resource."""
    return ApiRequest("POST", path, options={"json": body, "headers": _idempotency_key(once)})


def patch_request(path: str, body: JSON, etag: str | None = None) -> ApiRequest:
    """A request that changes the fields in `body` of the version with this `etag`; without one, of any."""
    headers = {"If-Match": etag} if etag else {}
    return ApiRequest("PATCH", path, options={"json": body, "headers": headers})


def upload_request(
    path: str,
    chunks: Chunks,
    parameters: QueryParameters,
    *,
    content_type: str = "application/x-ndjson",
    once: str | None = None,
) -> ApiRequest:
    """A request that sends a file chunk by chunk; `once` as in `post_request`."""
    options = {
        "content": chunks,
        "headers": {"Content-Type": content_type, **_idempotency_key(once)},
        # The service responds after it has stored the file: minutes for gigabytes.
        "timeout": httpx.Timeout(RESPONSE_TIMEOUT_S, read=None),
    }
    return ApiRequest("POST", path, parameters, options)


def events_request(path: str, last_id: str | None) -> ApiRequest:
    """A request for an event stream, after the event `last_id`."""
    options = {
        "headers": {
            "Accept": "text/event-stream",
            **({"Last-Event-ID": last_id} if last_id else {}),
        },
        "timeout": httpx.Timeout(RESPONSE_TIMEOUT_S, read=STREAM_TIMEOUT_S),
    }
    return ApiRequest("GET", path, options=options)


def fetch(request: ApiRequest) -> ApiCall[httpx.Response]:
    """The response to a request, in which IDs may be short."""
    full_request = yield from with_full_ids(request)
    return (yield full_request)


def fetch_json(request: ApiRequest) -> ApiCall[JSON]:
    """The JSON document of a response."""
    return parse_json((yield from fetch(request)))


def fetch_model(model: type[M], request: ApiRequest) -> ApiCall[M]:
    """The document of a response as a model of the API."""
    return parse_response(model, (yield from fetch_json(request)))


def fetch_items(model: type[M], request: ApiRequest) -> ApiCall[list[M]]:
    """The items of a list that has a single page."""
    document = yield from fetch_json(request)
    return [parse_response(model, item) for item in document["items"]]


def fetch_page(path: str, parameters: QueryParameters, limit: int) -> ApiCall[JSON]:
    """The first `limit` items of a list, with as many requests as its page size requires."""
    page: JSON = {}
    items: list[JSON] = []
    cursor = None
    while len(items) < limit:
        page_size = min(limit - len(items), MAX_PAGE_SIZE)
        page_parameters = {"limit": page_size, "cursor": cursor, **parameters}
        page = yield from fetch_json(ApiRequest("GET", path, page_parameters))
        items += page["items"]
        # Until the limit or the end: the service may return fewer items per page than requested.
        cursor = page["nextCursor"]
        if cursor is None:
            break
    return {**page, "items": items, "nextCursor": cursor}


@dataclass(slots=True)
class ItemList(Generic[T]):
    """All items of a list, page by page: a client performs `next_page` while `has_more`.

    `read_item` makes an item of its JSON.
    """

    read_item: Callable[[JSON], T]
    path: str
    filters: QueryParameters = field(default_factory=dict)
    has_more: bool = True
    _cursor: str | None = None

    def next_page(self) -> ApiCall[list[T]]:
        """The items of the next page."""
        parameters = {"limit": MAX_PAGE_SIZE, "cursor": self._cursor, **self.filters}
        page = yield from fetch_json(ApiRequest("GET", self.path, parameters))
        self._cursor = page["nextCursor"]
        self.has_more = self._cursor is not None
        return [self.read_item(item) for item in page["items"]]


def full_id(path: str, text: str) -> ApiCall[str]:
    """The ID of a resource of a list: of `latest`, or of an ID that is cut; else the text.

    Raises: `WrongUsage` for an empty text, `latest` of an empty list, and a beginning of several IDs.
    """
    # Its path would be that of the list.
    if not text.strip():
        raise WrongUsage("an ID or a name is empty", hint="write one, or leave it out")
    if text == LATEST and path in GENERATED_ID_LISTS:
        newest = (yield from fetch_page(path, {}, 1))["items"]
        if not newest:
            raise WrongUsage(f"there is no {LATEST} yet: the list is empty")
        return str(newest[0]["id"])
    if not is_short_id(text, path) or len(text) == FULL_LENGTH:
        return text
    page = yield from fetch_page(path, {}, SEARCHED_IDS)
    ids = [str(item["id"]) for item in page["items"]]
    matching = [known_id for known_id in ids if known_id.startswith(text)]
    if len(matching) > 1 and text not in matching:
        raise WrongUsage(
            f"{len(matching)} IDs begin with {text}", hint="write more characters of the ID"
        )
    return text if text in matching or not matching else matching[0]


def full_parameters(parameters: QueryParameters) -> ApiCall[dict[str, QueryValue]]:
    """The parameters with the full IDs of the resources that they name, without those that are None."""
    full: dict[str, QueryValue] = {}
    for name, value in parameters.items():
        # httpx would send None as an empty parameter, which the service rejects.
        if value is not None:
            full[name] = yield from _full_ids(name, value)
    return full


def with_full_ids(request: ApiRequest) -> ApiCall[ApiRequest]:
    """A request with full IDs in its parameters and in its path."""
    parameters = yield from full_parameters(request.parameters)
    path = yield from _full_path(request.path)
    return replace(request, path=path, parameters=parameters)


def _full_ids(parameter: str, value: QueryValue) -> ApiCall[QueryValue]:
    """The value of a parameter; if it names resources, with their full IDs."""
    path = ID_PARAMETERS.get(parameter)
    if path is None or not isinstance(value, str | list):
        return value
    ids = [value] if isinstance(value, str) else list(value)
    for index, text in enumerate(ids):
        ids[index] = yield from full_id(path, text)
    return ids


def _full_path(path: str) -> ApiCall[str]:
    """A path whose second segment, if any, may be a short ID."""
    _, resource, *segments = path.split("/")
    if segments:
        text = unquote(segments[0])
        resource_id = yield from full_id(f"/{resource}", text)
        if resource_id != text:
            segments[0] = quote(resource_id, safe="")
    return "/".join(("", resource, *segments))


def _idempotency_key(once: str | None) -> dict[str, str]:
    return {"Idempotency-Key": once} if once else {}
