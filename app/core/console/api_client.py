"""The way of the command line to the service: its address, its key, its answers and errors."""

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

from app.core.console.terminal import confirm, print_status
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
# One that is given several times is a list.
Parameter: TypeAlias = str | int | bool | list[str] | None
Parameters: TypeAlias = Mapping[str, Parameter]

PREFIX = "/api/v1"
ADMIN_KEY_FILE = "admin.key"
LARGEST_PAGE = 200
ANSWER_S = 60.0
COMPLETION_S = 0.3
# The service says something at least every 15 s.
SILENCE_S = 60.0

_KINDS: Mapping[int, type[AppError]] = {
    400: Invalid,
    412: Conflict,
    415: Invalid,
    428: Invalid,
    408: Unavailable,
    429: Unavailable,
    **{
        kind.status: kind
        for kind in (Invalid, NotFound, Conflict, Unauthorized, Forbidden, TooLarge, Unavailable)
    },
}


class NotReachable(AppError):
    """The service does not answer; start it with `mosaico serve`."""

    code = "not-reachable"
    status = 503
    exit_code = 69


class StrangeAnswer(AppError):
    """Something answers there that is not this service; set MOSAICO_URL."""

    code = "strange-answer"
    status = 502
    exit_code = 69


class BadAddress(AppError):
    """MOSAICO_URL is not the address of a service; write it as http://127.0.0.1:8080."""

    code = "bad-address"
    exit_code = 78


class Access(NamedTuple):
    """Where the service is, the key to it, and where that key came from."""

    url: str
    key: str | None
    key_source: str


class Tagged(NamedTuple):
    """What was read, and the ETag that an edit of it names."""

    document: JSON
    etag: str | None


class Event(NamedTuple):
    """A server-sent event; `data` is None for a sign of life that tells nothing new."""

    id: str | None
    data: JSON | None


@dataclass(frozen=True, slots=True)
class Api:
    """The API of the service.

    Raises, from every method: `NotReachable`, `StrangeAnswer`, and what the service refuses as
    the error that it is (`NotFound`, `Conflict`, `Invalid`, …) with the service's own words.
    """

    client: httpx.Client
    key_source: str

    @property
    def url(self) -> str:
        return str(self.client.base_url).rstrip("/")

    def get(self, path: str, **parameters: Parameter) -> JSON:
        return self._json("GET", path, parameters)

    def get_text(self, path: str, **parameters: Parameter) -> str:
        """What is no JSON: a picture."""
        return self._answered(self._send("GET", path, parameters)).text

    def post(self, path: str, body: JSON | None = None) -> JSON:
        return self._json("POST", path, {}, json=body)

    def patch(self, path: str, body: JSON) -> JSON:
        return self._json("PATCH", path, {}, json=body)

    def put(self, path: str, body: JSON) -> JSON:
        return self._json("PUT", path, {}, json=body)

    def tagged(self, path: str) -> Tagged:
        """What is at a path, to be edited."""
        response = self._answered(self._send("GET", path, {}))
        return Tagged(self._document(response), response.headers.get("ETag"))

    def delete(self, path: str, etag: str | None = None) -> None:
        """Raises: `Conflict` also when what has this `etag` has been changed since."""
        headers = {"If-Match": etag} if etag else {}
        self._answered(self._send("DELETE", path, {}, headers=headers))

    def page(self, path: str, *, limit: int, **parameters: Parameter) -> JSON:
        """The first `limit` items of a list, in as many requests as the service asks for."""
        items: list[JSON] = []
        cursor = None
        while len(items) < limit:
            wanted = min(limit - len(items), LARGEST_PAGE)
            page = self.get(path, limit=wanted, cursor=cursor, **parameters)
            items += page["items"]
            cursor = page["nextCursor"]
            if cursor is None:
                break
        return {"items": items, "nextCursor": cursor}

    def upload(
        self,
        path: str,
        pieces: Iterable[bytes],
        parameters: Parameters,
        *,
        content_type: str = "application/x-ndjson",
    ) -> JSON:
        """Send a file as it comes, without holding it in memory."""
        headers = {"Content-Type": content_type}
        patience = httpx.Timeout(ANSWER_S, read=None)  # storing gigabytes takes its time
        return self._json(
            "POST", path, parameters, content=pieces, headers=headers, timeout=patience
        )

    def events(self, path: str, last_id: str | None = None) -> Iterator[Event]:
        """The events of one connection; it may end at any time, and nothing comes after the last.

        Raises: `NotReachable` also when the connection breaks.
        """
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        with (
            self._reaching(),
            self.client.stream(
                "GET",
                PREFIX + path,
                headers=headers,
                timeout=httpx.Timeout(ANSWER_S, read=SILENCE_S),
            ) as response,
        ):
            if not response.is_success:
                response.read()
            self._answered(response)
            yield from read_events(response.iter_lines())

    def _json(self, method: str, path: str, parameters: Parameters, **content: Any) -> JSON:
        return self._document(self._answered(self._send(method, path, parameters, **content)))

    def _document(self, response: httpx.Response) -> JSON:
        try:
            document: JSON = response.json()
        except ValueError:
            raise self._strange(response) from None
        return document

    def _send(
        self, method: str, path: str, parameters: Parameters, **content: Any
    ) -> httpx.Response:
        given = {name: value for name, value in parameters.items() if value is not None}
        with self._reaching():
            return self.client.request(method, PREFIX + path, params=given, **content)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            raise NotReachable(
                f"the service at {self.url} does not answer",
                cause=str(error) or type(error).__name__,
                hint="start it with `mosaico serve`, or set MOSAICO_URL to where it runs",
            ) from error

    def _answered(self, response: httpx.Response) -> httpx.Response:
        if response.is_success:
            return response
        try:
            problem = response.json()
            kind = problem["type"].removeprefix("/problems/")
            detail = str(problem["detail"])
            items = [_item(item) for item in problem.get("errors", ())]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._strange(response) from None
        members = {
            name: value
            for name, value in problem.items()
            if name not in ("type", "title", "detail", "errors")
        }
        hint = self._hint(response.status_code, kind)
        if hint:
            members["hint"] = hint
        error = _KINDS.get(response.status_code, AppError)
        raise error(detail, code=kind, errors=items, **members)

    def _strange(self, response: httpx.Response) -> StrangeAnswer:
        return StrangeAnswer(
            f"{self.url} answered {response.status_code}, and not as MOSAICO would",
            hint="set MOSAICO_URL to the address of the service",
        )

    def _hint(self, status: int, code: str) -> str | None:
        if status == http.HTTPStatus.UNAUTHORIZED:
            return f"put an API key into MOSAICO_API_KEY; the one that was sent: {self.key_source}"
        if status == http.HTTPStatus.FORBIDDEN:
            return (
                "put a key with that role into MOSAICO_API_KEY; an administrator makes one with"
                " `mosaico keys create`"
            )
        thing, found, _ = code.partition("-not-found")
        return f"`mosaico {thing}s list` shows those there are" if found else None


@contextmanager
def open_api(timeout_s: float = ANSWER_S) -> Iterator[Api]:
    """The API at `MOSAICO_URL`, by default on this machine."""
    access = find_access()
    with own_service_client(access.url, key=access.key, timeout_s=timeout_s) as client:
        yield Api(client, access.key_source)


def find_access() -> Access:
    """Where the service is and with which key to call it.

    The key comes from MOSAICO_API_KEY. Without it the administrator's own key is taken, but only
    for a service on this machine: it is never sent anywhere else.
    Raises: `BadAddress`, `UnsafeSecretFile`, `BadSettings`.
    """
    url = os.environ.get("MOSAICO_URL", "").strip()
    key = os.environ.get("MOSAICO_API_KEY", "").strip()
    if not (url and key):
        settings = load_settings()
        url = url or f"http://127.0.0.1:{settings.port}"
    _check_address(url)
    if key:
        return Access(url, key, "MOSAICO_API_KEY")
    if not _is_loopback(url):
        return Access(url, None, "none, since MOSAICO_API_KEY is not set")
    return _administrators_access(url, settings)


def read_events(lines: Iterable[str]) -> Iterator[Event]:
    """The events in the lines of a stream; comments are signs of life.

    Source: WHATWG HTML, section 9.2 Server-sent events.
    """
    identity, data = None, list[str]()
    for line in lines:
        name, _, value = line.partition(":")
        if not line:
            if data:
                yield Event(identity, json.loads("\n".join(data)))
            data = []
        elif not name:
            yield Event(identity, None)
        elif name == "id":
            identity = value.removeprefix(" ")
        elif name == "data":
            data.append(value.removeprefix(" "))


def known_ids(path: str, incomplete: str) -> list[str]:
    """Ids for the completion of the shell; none rather than an error or a wait."""
    try:
        with open_api(COMPLETION_S) as api:
            found = [str(item["id"]) for item in api.page(path, limit=LARGEST_PAGE)["items"]]
    except AppError:
        return []
    return [identity for identity in found if identity.startswith(incomplete)]


def delete_thing(path: str, what: str, *, yes: bool, dry_run: bool) -> None:
    """Delete what is at a path, once its user has agreed; raises `NotFound` before it asks."""
    with open_api() as api:
        found = api.tagged(path)
        if dry_run:
            print_status(f"would delete {what}; nothing was done")
            return
        confirm(f"delete {what} for good?", yes=yes)
        api.delete(path, found.etag)
    print_status(f"deleted {what}")


def segment(text: str) -> str:
    """An id as one step of a path, whatever characters it has."""
    return quote(text, safe="")


def _administrators_access(url: str, settings: Settings) -> Access:
    configured = settings.admin_key.get_secret_value().strip() if settings.admin_key else ""
    if configured:
        return Access(url, configured, "MOSAICO_ADMIN_KEY")
    path = settings.data_dir / ADMIN_KEY_FILE
    key = read_secret_file(path)
    return Access(url, key, str(path) if key else f"none, since there is no {path}")


def _check_address(url: str) -> None:
    try:
        parsed = httpx.URL(url)
        fits = parsed.scheme in ("http", "https") and bool(parsed.host) and not parsed.userinfo
    except httpx.InvalidURL:
        fits = False
    if not fits:
        raise BadAddress(
            "MOSAICO_URL is no address of a service",
            hint="write it as http://127.0.0.1:8080, or unset it",
        )


def _is_loopback(url: str) -> bool:
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _item(item: JSON) -> ErrorItem:
    span = item.get("span")
    return ErrorItem(
        pointer=str(item["pointer"]),
        detail=str(item["detail"]),
        span=(span[0], span[1]) if span else None,
    )
