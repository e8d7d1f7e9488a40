"""Client of the service's REST API for the command line and `mosaico.Client`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import httpx
from pydantic import BaseModel

from mosaico.core.console.api_calls import (
    MAX_PAGE_SIZE,
    ApiCall,
    ApiRequest,
    ItemList,
    QueryParameters,
    QueryValue,
    events_request,
    fetch,
    fetch_items,
    fetch_json,
    fetch_model,
    fetch_page,
    full_id,
    full_parameters,
    patch_request,
    post_request,
    upload_request,
    with_full_ids,
)
from mosaico.core.console.api_responses import (
    JSON,
    check_status,
    parse_json,
    translate_errors,
)
from mosaico.core.console.event_stream import ServerSentEvent, read_events
from mosaico.core.console.service_address import find_pages_url, find_service
from mosaico.core.console.short_ids import ARCHIVABLE_LISTS, may_be_name
from mosaico.core.console.terminal import WrongUsage
from mosaico.core.errors import AppError, NotFound
from mosaico.core.http.client import own_service_client
from mosaico.core.web.page_paths import path_of

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

# The shell waits for a completion: no IDs are better than a delay.
COMPLETION_TIMEOUT_S = 0.3


class TaggedDocument(NamedTuple):
    """A document and its ETag, which a conditional edit sends back."""

    document: JSON
    etag: str | None


@dataclass(frozen=True, slots=True)
class ApiClient:
    """The REST API of the service.

    Every method raises `ServiceUnreachable`, `UnexpectedResponse`, and each problem that the
    service reports as the matching error (`NotFound`, `Conflict`, `Invalid`, …) with its message.
    """

    client: httpx.Client
    key_source: str

    @property
    def url(self) -> str:
        """Base URL of the service, without a slash at its end."""
        return str(self.client.base_url).rstrip("/")

    @property
    def pages_url(self) -> str:
        """Base URL of the pages for people, without a slash at its end."""
        return find_pages_url(self.url)

    def perform(self, call: ApiCall[T]) -> T:
        """The answer of a call."""
        try:
            request = next(call)
            while True:
                request = call.send(self._send(request))
        except StopIteration as end:
            answer: T = end.value
            return answer

    def get(self, path: str, **parameters: QueryValue) -> JSON:
        """The JSON document at a path."""
        return self.perform(fetch_json(ApiRequest("GET", path, parameters)))

    def read(self, model: type[M], path: str, **parameters: QueryValue) -> M:
        """The document at a path as a model of the API."""
        return self.perform(fetch_model(model, ApiRequest("GET", path, parameters)))

    def read_items(self, model: type[M], path: str, **parameters: QueryValue) -> list[M]:
        """The items of a list that has a single page."""
        return self.perform(fetch_items(model, ApiRequest("GET", path, parameters)))

    def get_text(self, path: str, **parameters: QueryValue) -> str:
        """A response that is not JSON, such as an SVG image."""
        return self.perform(fetch(ApiRequest("GET", path, parameters))).text

    def post(self, path: str, body: JSON | None = None, *, once: str | None = None) -> JSON:
        """The response to a POST request, with or without a body.

        Requests with the same `once` create one resource (`Idempotency-Key`).
        """
        return self.perform(fetch_json(post_request(path, body, once=once)))

    def patch(self, path: str, body: JSON, etag: str | None = None) -> JSON:
        """Change the fields in `body`; returns the changed document. Raises: `Conflict` also if it no longer has
        this `etag`.
        """
        return self.perform(fetch_json(patch_request(path, body, etag)))

    def put(self, path: str, body: JSON) -> JSON:
        """Replace the document at a path; returns the new one."""
        return self.perform(fetch_json(ApiRequest("PUT", path, options={"json": body})))

    def get_with_etag(self, path: str) -> TaggedDocument:
        """A document with its ETag, for an edit."""
        response = self.perform(fetch(ApiRequest("GET", path)))
        return TaggedDocument(parse_json(response), response.headers.get("ETag"))

    def delete(self, path: str, etag: str | None = None, *, cascade: bool = False) -> None:
        """Delete a resource, with `cascade` also what goes with it. Raises: `Conflict` also if it no longer has
        this `etag`.
        """
        options: dict[str, Any] = {"headers": {"If-Match": etag} if etag else {}}
        if cascade:
            options["params"] = {"cascade": "true"}
        self.perform(fetch(ApiRequest("DELETE", path, options=options)))

    def page(self, path: str, *, limit: int, **parameters: QueryValue) -> JSON:
        """The first `limit` items of a list, with as many requests as its page size requires."""
        return self.perform(fetch_page(path, parameters, limit))

    def items(self, path: str, **parameters: QueryValue) -> Iterator[JSON]:
        """All items of a list, page by page."""
        return self.iterate(ItemList(lambda item: item, path, parameters))

    def iterate(self, items: ItemList[T]) -> Iterator[T]:
        """The items of a list, page by page."""
        while items.has_more:
            yield from self.perform(items.next_page())

    def full_parameters(self, parameters: QueryParameters) -> dict[str, QueryValue]:
        """The parameters with the full IDs of the resources that they name, without those that are None."""
        return self.perform(full_parameters(parameters))

    def full_id(self, path: str, text: str) -> str:
        """The ID of a resource of a list: of `latest`, or of an ID that is cut; else the text.

        Raises: `WrongUsage` for `latest` of an empty list, and a beginning of several IDs.
        """
        return self.perform(full_id(path, text))

    def find_id(self, path: str, text: str) -> str:
        """As `full_id`, and the ID of a resource that is named by its name; the text where there is none.

        Raises: `WrongUsage` also for a name of several resources.
        """
        text = text.strip()
        if not may_be_name(text, path):
            return self.full_id(path, text)
        with suppress(NotFound):
            return str(self.get(f"{path}{path_of(text)}")["id"])
        # What is in use comes before what is archived.
        for archived in (None, True) if path in ARCHIVABLE_LISTS else (None,):
            resources = self.items(path, archived=archived)
            ids = [str(resource["id"]) for resource in resources if _name_of(resource) == text]
            if len(ids) > 1:
                raise WrongUsage(
                    f"{len(ids)} have the name {text}", hint=f"use an ID: {', '.join(ids)}"
                )
            if ids:
                return ids[0]
        return text

    def upload(
        self,
        path: str,
        chunks: Iterable[bytes],
        parameters: QueryParameters,
        *,
        content_type: str = "application/x-ndjson",
        once: str | None = None,
    ) -> JSON:
        """Send a file chunk by chunk, without holding all of it in memory; `once` as in `post`."""
        request = upload_request(path, chunks, parameters, content_type=content_type, once=once)
        return self.perform(fetch_json(request))

    def events(self, path: str, last_id: str | None = None) -> Iterator[ServerSentEvent]:
        """The events of one connection, which the service may close at any time.

        Raises: `ServiceUnreachable` also when the connection breaks.
        """
        request = self.perform(with_full_ids(events_request(path, last_id)))
        with translate_errors(self.url), self.client.stream(**request.arguments) as response:
            # A streamed response has no body until it is read, and the error is in the body.
            if not response.is_success:
                response.read()
            check_status(response, self.key_source)
            yield from read_events(response.iter_lines())

    def _send(self, request: ApiRequest) -> httpx.Response:
        with translate_errors(self.url):
            response = self.client.request(**request.arguments)
        return check_status(response, self.key_source)


def _name_of(resource: JSON) -> object:
    """The name of an agent, a rule, a schedule, or a benchmark."""
    return resource.get("name") or resource.get("metadata", {}).get("name")


@contextmanager
def open_client(timeout_s: float) -> Iterator[ApiClient]:
    """See `mosaico.core.console.service.open_api`."""
    service = find_service()
    with own_service_client(service.url, key=service.key, timeout_s=timeout_s) as client:
        yield ApiClient(client, service.key_source)


def list_ids(path: str, incomplete: str) -> list[str]:
    """IDs that start with `incomplete`, for shell completion; empty on any error or timeout."""
    try:
        with open_client(COMPLETION_TIMEOUT_S) as api:
            ids = [str(item["id"]) for item in api.page(path, limit=MAX_PAGE_SIZE)["items"]]
    except AppError:
        return []
    return [item_id for item_id in ids if item_id.startswith(incomplete)]
