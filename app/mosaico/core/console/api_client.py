"""Client of the service's REST API for the command line: address, key, responses and errors."""

import http
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, unquote

import httpx
from pydantic import BaseModel, ValidationError

from mosaico.core.console.error_messages import find_remedy
from mosaico.core.console.event_stream import ServerSentEvent, read_events
from mosaico.core.console.service_address import find_pages_url, find_service
from mosaico.core.console.short_ids import (
    FULL_LENGTH,
    GENERATED_ID_LISTS,
    LATEST,
    is_short_id,
)
from mosaico.core.console.terminal import WrongUsage
from mosaico.core.errors import (
    AppError,
    Conflict,
    ErrorItem,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
    without_request,
)
from mosaico.core.http.client import own_service_client

JSON = dict[str, Any]
M = TypeVar("M", bound=BaseModel)
# A list is sent as one parameter per element.
QueryValue: TypeAlias = str | int | bool | list[str] | None
QueryParameters: TypeAlias = Mapping[str, QueryValue]

API_PREFIX = "/api/v1"
MAX_PAGE_SIZE = 200
# The parameters that name resources, with the list of the resource.
ID_PARAMETERS = {"runId": "/benchmark-runs", "alertConfigId": "/alert-configs"}
# A short ID is one that a table showed: it is among the newest.
SEARCHED_IDS = 1000
# The shell waits for a completion: no IDs are better than a delay.
COMPLETION_TIMEOUT_S = 0.3
RESPONSE_TIMEOUT_S = 60.0
# The service sends an event or a comment at least every 15 s.
# Four keep-alives may be late before the connection counts as broken.
STREAM_TIMEOUT_S = 60.0

_ERROR_CLASSES: Mapping[int, type[AppError]] = {
    400: Invalid,
    412: Conflict,
    415: Invalid,
    428: Invalid,
    # Several statuses share a class of error, which decides the exit code.
    408: Unavailable,
    429: Unavailable,
    **{
        kind.status: kind
        for kind in (Invalid, NotFound, Conflict, Unauthorized, Forbidden, TooLarge, Unavailable)
    },
}


class ServiceUnreachable(AppError):
    """The service does not respond; start it with `mosaico serve`."""

    status = 503
    exit_code = 69


class UnexpectedResponse(AppError):
    """The response does not come from MOSAICO; set MOSAICO_URL to the address of the service."""

    status = 502
    exit_code = 69


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

    def get(self, path: str, **parameters: QueryValue) -> JSON:
        """The JSON document at a path."""
        return self._json("GET", path, parameters)

    def read(self, model: type[M], path: str, **parameters: QueryValue) -> M:
        """The document at a path as a model of the API."""
        return parse_response(model, self.get(path, **parameters))

    def read_items(self, model: type[M], path: str, **parameters: QueryValue) -> list[M]:
        """The items of a list that has a single page."""
        return [parse_response(model, item) for item in self.get(path, **parameters)["items"]]

    def get_text(self, path: str, **parameters: QueryValue) -> str:
        """A response that is not JSON, such as an SVG image."""
        return self._check_status(self._send("GET", path, parameters)).text

    def post(self, path: str, body: JSON | None = None, *, once: str | None = None) -> JSON:
        """The response to a POST request, with or without a body.

        Requests with the same `once` create one resource (`Idempotency-Key`).
        """
        headers = {"Idempotency-Key": once} if once else {}
        return self._json("POST", path, {}, json=body, headers=headers)

    def patch(self, path: str, body: JSON) -> JSON:
        """Change the fields in `body`; returns the changed document."""
        return self._json("PATCH", path, {}, json=body)

    def put(self, path: str, body: JSON) -> JSON:
        """Replace the document at a path; returns the new one."""
        return self._json("PUT", path, {}, json=body)

    def get_with_etag(self, path: str) -> TaggedDocument:
        """A document with its ETag, for an edit."""
        response = self._check_status(self._send("GET", path, {}))
        return TaggedDocument(self._parse(response), response.headers.get("ETag"))

    def delete(self, path: str, etag: str | None = None) -> None:
        """Delete a resource. Raises: `Conflict` also if it no longer has this `etag`."""
        headers = {"If-Match": etag} if etag else {}
        self._check_status(self._send("DELETE", path, {}, headers=headers))

    def page(self, path: str, *, limit: int, **parameters: QueryValue) -> JSON:
        """The first `limit` items of a list, with as many requests as its page size requires."""
        page: JSON = {}
        items: list[JSON] = []
        cursor = None
        while len(items) < limit:
            page_size = min(limit - len(items), MAX_PAGE_SIZE)
            page = self.get(path, limit=page_size, cursor=cursor, **parameters)
            items += page["items"]
            # Until the limit or the end: the service may return fewer items per page than
            # requested.
            cursor = page["nextCursor"]
            if cursor is None:
                break
        return {**page, "items": items, "nextCursor": cursor}

    def items(self, path: str, **parameters: QueryValue) -> Iterator[JSON]:
        """All items of a list, page by page."""
        cursor = None
        while True:
            page = self.get(path, limit=MAX_PAGE_SIZE, cursor=cursor, **parameters)
            yield from page["items"]
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def full_parameters(self, parameters: QueryParameters) -> dict[str, QueryValue]:
        """The parameters with the full IDs of the resources that they name, without those that are None."""
        return {
            name: self._full_ids(name, value)
            for name, value in parameters.items()
            if value is not None
        }

    def full_id(self, path: str, text: str) -> str:
        """The ID of a resource of a list: of `latest`, or of an ID that is cut; else the text.

        Raises: `WrongUsage` for `latest` of an empty list, and a beginning of several IDs.
        """
        if text == LATEST and path in GENERATED_ID_LISTS:
            newest = self.page(path, limit=1)["items"]
            if not newest:
                raise WrongUsage(f"there is no {LATEST} yet: the list is empty")
            return str(newest[0]["id"])
        if not is_short_id(text, path) or len(text) == FULL_LENGTH:
            return text
        ids = [str(item["id"]) for item in self.page(path, limit=SEARCHED_IDS)["items"]]
        matching = [known_id for known_id in ids if known_id.startswith(text)]
        if len(matching) > 1 and text not in matching:
            raise WrongUsage(
                f"{len(matching)} IDs begin with {text}", hint="write more characters of the ID"
            )
        return text if text in matching or not matching else matching[0]

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
        headers = {"Content-Type": content_type, **({"Idempotency-Key": once} if once else {})}
        # The service responds after it has stored the file: minutes for gigabytes.
        timeout = httpx.Timeout(RESPONSE_TIMEOUT_S, read=None)
        return self._json(
            "POST", path, parameters, content=chunks, headers=headers, timeout=timeout
        )

    def events(self, path: str, last_id: str | None = None) -> Iterator[ServerSentEvent]:
        """The events of one connection, which the service may close at any time.

        Raises: `ServiceUnreachable` also when the connection breaks.
        """
        url = self._url(path)
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        with (
            self._translate_errors(),
            self.client.stream(
                "GET",
                url,
                headers=headers,
                timeout=httpx.Timeout(RESPONSE_TIMEOUT_S, read=STREAM_TIMEOUT_S),
            ) as response,
        ):
            # A streamed response has no body until it is read, and the error is in the body.
            if not response.is_success:
                response.read()
            self._check_status(response)
            yield from read_events(response.iter_lines())

    def _json(self, method: str, path: str, parameters: QueryParameters, **content: Any) -> JSON:
        return self._parse(self._check_status(self._send(method, path, parameters, **content)))

    def _parse(self, response: httpx.Response) -> JSON:
        try:
            document: JSON = response.json()
        except ValueError:
            raise self._unexpected(response) from None
        return document

    def _send(
        self, method: str, path: str, parameters: QueryParameters, **content: Any
    ) -> httpx.Response:
        # httpx would send None as an empty parameter, which the service rejects.
        present = self.full_parameters(parameters)
        url = self._url(path)
        with self._translate_errors():
            return self.client.request(method, url, params=present, **content)

    def _url(self, path: str) -> str:
        """The URL of a path whose second segment, if any, may be a short ID."""
        _, resource, *segments = path.split("/")
        if segments:
            text = unquote(segments[0])
            full_id = self.full_id(f"/{resource}", text)
            if full_id != text:
                segments[0] = quote(full_id, safe="")
        return "/".join((API_PREFIX, resource, *segments))

    def _full_ids(self, parameter: str, value: QueryValue) -> QueryValue:
        """The value of a parameter; if it names resources, with their full IDs."""
        path = ID_PARAMETERS.get(parameter)
        if path is None or not isinstance(value, str | list):
            return value
        return [self.full_id(path, text) for text in ([value] if isinstance(value, str) else value)]

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            raise ServiceUnreachable(
                f"the service at {self.url} does not respond",
                cause=str(error) or type(error).__name__,
                hint="start it with `mosaico serve`, or set MOSAICO_URL to its address",
            ) from error

    def _check_status(self, response: httpx.Response) -> httpx.Response:
        """The response if it is a success. Raises: the error that its problem document states."""
        if response.is_success:
            return response
        try:
            problem = response.json()
            code = problem["type"].removeprefix("/problems/")
            detail = str(problem["detail"])
            items = [_parse_error_item(item) for item in problem.get("errors", ())]
        # Another server answers at this address, with whatever it has.
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._unexpected(response) from None
        if code == NotFound.code:
            # The path is that of no resource: by an ID with a slash, or by the address of the service.
            if not _names_resource(response.request.url):
                raise self._unexpected(response)
            detail = "no resource has this ID"
        members = {
            name: value
            for name, value in problem.items()
            if name not in ("type", "title", "detail", "errors")
        }
        hint = self._hint(response.status_code, code)
        if hint:
            members["hint"] = hint
            detail = without_request(detail)
        error_class = _ERROR_CLASSES.get(response.status_code, AppError)
        raise error_class(detail, code=code, errors=items, **members)

    def _unexpected(self, response: httpx.Response) -> UnexpectedResponse:
        return UnexpectedResponse(
            f"{self.url} responded with {response.status_code}, but the response is not from "
            "MOSAICO",
            hint="set MOSAICO_URL to the address of the service",
        )

    def _hint(self, status: int, code: str) -> str | None:
        if status == http.HTTPStatus.UNAUTHORIZED:
            return (
                f"set MOSAICO_API_KEY to a valid API key; source of the key sent: {self.key_source}"
            )
        if status == http.HTTPStatus.FORBIDDEN:
            return (
                "set MOSAICO_API_KEY to a key with that role; an administrator creates one with"
                " `mosaico keys create`"
            )
        return find_remedy(code)


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


def parse_response(model: type[M], document: JSON) -> M:
    """A document of the service as a model. Raises: `UnexpectedResponse`."""
    try:
        # A newer service may have more fields.
        return model.model_validate(document, extra="ignore")
    except ValidationError as error:
        raise UnexpectedResponse(
            f"the response of the service is not a {model.__name__}: {error.error_count()} "
            "fields differ",
            hint="install the version of the service: `mosaico --version` on its machine shows it",
        ) from error


def _names_resource(url: httpx.URL) -> bool:
    """Return whether a URL of the API has more than a list in its path."""
    return url.path.partition(API_PREFIX)[2].strip("/").count("/") > 0


def _parse_error_item(item: JSON) -> ErrorItem:
    span = item.get("span")
    return ErrorItem(
        pointer=str(item["pointer"]),
        detail=str(item["detail"]),
        span=(span[0], span[1]) if span else None,
    )
