"""Client of the service's REST API for the command line: address, key, responses and errors."""

import http
import ipaddress
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

import httpx

from app.core.errors import (
    AppError,
    Conflict,
    ErrorItem,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from app.core.http.client import own_service_client
from app.core.secret_files import read_secret_file
from app.core.settings import Settings, load_settings

JSON = dict[str, Any]
# A list is sent as one parameter per element.
QueryValue: TypeAlias = str | int | bool | list[str] | None
QueryParameters: TypeAlias = Mapping[str, QueryValue]

API_PREFIX = "/api/v1"
ADMIN_KEY_FILE = "admin.key"
MAX_PAGE_SIZE = 200
RESPONSE_TIMEOUT_S = 60.0
# The shell waits for a completion: no IDs are better than a delay.
COMPLETION_TIMEOUT_S = 0.3
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

# The command that lists the resources of which one was not found, by error code.
LIST_COMMANDS: Mapping[str, str] = {
    "agent-not-found": "agents list",
    "alert-not-found": "alerts list",
    "incident-not-found": "incidents list",
    "alert-config-not-found": "alerts rules list",
    "benchmark-not-found": "benchmarks list",
    "dataset-not-found": "datasets list",
    "delivery-not-found": "notify deliveries list",
    "endpoint-not-found": "notify endpoints list",
    "kpi-not-found": "benchmarks list",
    "notification-not-found": "inbox list",
    "run-not-found": "runs list",
    "schedule-not-found": "schedules list",
    "silence-not-found": "alerts silences list",
    "trace-not-found": "runs traces",
    "unknown-api-key": "keys list",
}


class ServiceUnreachable(AppError):
    """The service does not respond; start it with `mosaico serve`."""

    code = "service-unreachable"
    status = 503
    exit_code = 69


class UnexpectedResponse(AppError):
    """The response does not come from MOSAICO; set MOSAICO_URL to the address of the service."""

    code = "unexpected-response"
    status = 502
    exit_code = 69


class InvalidServiceUrl(AppError):
    """MOSAICO_URL is not a valid HTTP address; write it as http://127.0.0.1:8080."""

    code = "invalid-service-url"
    exit_code = 78


class ServiceAddress(NamedTuple):
    """URL of the service, the API key for it, and the source of that key."""

    url: str
    key: str | None
    key_source: str


class TaggedDocument(NamedTuple):
    """A document and its ETag, which a conditional edit sends back."""

    document: JSON
    etag: str | None


class ServerSentEvent(NamedTuple):
    """A server-sent event; `data` is None for a keep-alive comment."""

    id: str | None
    data: JSON | None


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

    def get(self, path: str, **parameters: QueryValue) -> JSON:
        """The JSON document at a path."""
        return self._json("GET", path, parameters)

    def get_text(self, path: str, **parameters: QueryValue) -> str:
        """A response that is not JSON, such as an SVG image."""
        return self._check_status(self._send("GET", path, parameters)).text

    def post(self, path: str, body: JSON | None = None) -> JSON:
        """The response to a POST request, with or without a body."""
        return self._json("POST", path, {}, json=body)

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
        return {"items": items, "nextCursor": cursor}

    def upload(
        self,
        path: str,
        chunks: Iterable[bytes],
        parameters: QueryParameters,
        *,
        content_type: str = "application/x-ndjson",
    ) -> JSON:
        """Send a file chunk by chunk, without holding all of it in memory."""
        headers = {"Content-Type": content_type}
        # The service responds after it has stored the file: minutes for gigabytes.
        timeout = httpx.Timeout(RESPONSE_TIMEOUT_S, read=None)
        return self._json(
            "POST", path, parameters, content=chunks, headers=headers, timeout=timeout
        )

    def events(self, path: str, last_id: str | None = None) -> Iterator[ServerSentEvent]:
        """The events of one connection, which the service may close at any time.

        Raises: `ServiceUnreachable` also when the connection breaks.
        """
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        with (
            self._translate_errors(),
            self.client.stream(
                "GET",
                API_PREFIX + path,
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
        present = {name: value for name, value in parameters.items() if value is not None}
        with self._translate_errors():
            return self.client.request(method, API_PREFIX + path, params=present, **content)

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
        members = {
            name: value
            for name, value in problem.items()
            if name not in ("type", "title", "detail", "errors")
        }
        hint = self._hint(response.status_code, code)
        if hint:
            members["hint"] = hint
        error_class = _ERROR_CLASSES.get(response.status_code, AppError)
        raise error_class(detail, code=code, errors=items, **members)

    def _unexpected(self, response: httpx.Response) -> UnexpectedResponse:
        return UnexpectedResponse(
            f"{self.url} responded with {response.status_code}, but not as MOSAICO does",
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
        list_command = LIST_COMMANDS.get(code)
        return f"`mosaico {list_command}` lists the existing ones" if list_command else None


@contextmanager
def open_api(timeout_s: float = RESPONSE_TIMEOUT_S) -> Iterator[ApiClient]:
    """A client of the service at `MOSAICO_URL`, by default on this machine."""
    service = find_service()
    with own_service_client(service.url, key=service.key, timeout_s=timeout_s) as client:
        yield ApiClient(client, service.key_source)


def find_service() -> ServiceAddress:
    """The address of the service and the API key to send.

    The key is MOSAICO_API_KEY. Without it, the administrator's key is used, but only for a service
    on this machine: it is never sent anywhere else.
    Raises: `InvalidServiceUrl`, `UnsafeSecretFile`, `BadSettings`.
    """
    url = os.environ.get("MOSAICO_URL", "").strip()
    key = os.environ.get("MOSAICO_API_KEY", "").strip()
    # Both given: the settings are not read, and a command works without any configuration of the
    # service.
    if not (url and key):
        settings = load_settings()
        url = url or f"http://127.0.0.1:{settings.port}"
    _check_url(url)
    if key:
        return ServiceAddress(url, key, "MOSAICO_API_KEY")
    # A wrong MOSAICO_URL must not send the administrator's key to a foreign server.
    if not _is_loopback(url):
        return ServiceAddress(url, None, "none, because MOSAICO_API_KEY is not set")
    return _local_admin_address(url, settings)


def read_events(lines: Iterable[str]) -> Iterator[ServerSentEvent]:
    """The events in the lines of a stream, keep-alive comments included.

    Source: WHATWG HTML, section 9.2 Server-sent events.
    """
    event_id, data = None, list[str]()
    for line in lines:
        name, _, value = line.partition(":")
        if not line:
            # Source: an event without data is not dispatched.
            if data:
                yield ServerSentEvent(event_id, json.loads("\n".join(data)))
            data = []
        elif not name:
            yield ServerSentEvent(event_id, None)
        elif name == "id":
            # One space after the colon belongs to the format, a second one to the value.
            event_id = value.removeprefix(" ")
        elif name == "data":
            data.append(value.removeprefix(" "))


def list_ids(path: str, incomplete: str) -> list[str]:
    """IDs that start with `incomplete`, for shell completion; empty on any error or timeout."""
    try:
        with open_api(COMPLETION_TIMEOUT_S) as api:
            ids = [str(item["id"]) for item in api.page(path, limit=MAX_PAGE_SIZE)["items"]]
    except AppError:
        return []
    return [item_id for item_id in ids if item_id.startswith(incomplete)]


def quote_segment(text: str) -> str:
    """An ID as one segment of a URL path, with every special character quoted."""
    return quote(text, safe="")


def _local_admin_address(url: str, settings: Settings) -> ServiceAddress:
    configured = settings.admin_key.get_secret_value().strip() if settings.admin_key else ""
    if configured:
        return ServiceAddress(url, configured, "MOSAICO_ADMIN_KEY")
    path = settings.data_dir / ADMIN_KEY_FILE
    key = read_secret_file(path)
    return ServiceAddress(url, key, str(path) if key else f"none, because {path} does not exist")


def _check_url(url: str) -> None:
    try:
        parsed = httpx.URL(url)
        # A password in the URL would appear in messages and in the process list.
        is_valid = parsed.scheme in ("http", "https") and bool(parsed.host) and not parsed.userinfo
    except httpx.InvalidURL:
        is_valid = False
    if not is_valid:
        raise InvalidServiceUrl(
            "MOSAICO_URL is not a valid HTTP address",
            hint="write it as http://127.0.0.1:8080, or unset it",
        )


def _is_loopback(url: str) -> bool:
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _parse_error_item(item: JSON) -> ErrorItem:
    span = item.get("span")
    return ErrorItem(
        pointer=str(item["pointer"]),
        detail=str(item["detail"]),
        span=(span[0], span[1]) if span else None,
    )
