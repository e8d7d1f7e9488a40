"""What a Langfuse server offers to a key: its check, and a cache that saves the check for an hour."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.core.clock import utc_now
from app.core.http.throttle import CancelToken
from app.core.resources import Resources
from app.traces.registry import SourceCheck, TraceQuery
from app.traces.sources.langfuse.client import (
    LangfuseClient,
    get_rows,
    open_client,
    require_credentials,
)
from app.traces.sources.langfuse.errors import (
    BadResponse,
    LangfuseAuthError,
    NotFoundError,
    PageTooLarge,
)
from app.traces.sources.langfuse.json_fields import JSON, format_time, get_text
from app.traces.sources.langfuse.retry import LangfusePolicy

# An upgrade within this time is noticed by a 404, which removes the entry.
TTL_S: Final = 3600.0

# A person waits for the check and can repeat it, so the waits are short.
CHECK_POLICY: Final = LangfusePolicy(request_s=8.0, retries=1, first_wait_s=0.5, rate_limit_s=3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """The newest API version that a server answers, and the project of the key."""

    api: str
    project_id: str | None


class ServerCache:
    """Server information by host and public key; each entry expires after an hour."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[tuple[str, str], tuple[float, ServerInfo]] = {}
        self._lock = threading.Lock()

    def get(self, host: str, key: str) -> ServerInfo | None:
        with self._lock:
            entry = self._entries.get((host, key))
            if entry is None or entry[0] <= self._clock():
                self._entries.pop((host, key), None)
                return None
            return entry[1]

    def put(self, host: str, key: str, info: ServerInfo) -> None:
        with self._lock:
            self._entries[(host, key)] = (self._clock() + TTL_S, info)

    def evict(self, host: str, key: str) -> None:
        with self._lock:
            self._entries.pop((host, key), None)


SERVER_CACHE = ServerCache()


def check_server(resources: Resources, query: TraceQuery) -> SourceCheck:
    """Check the address and the keys of an agent, and cache what the server offers.

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
    info = ServerInfo(api=api, project_id=get_text(project, "id"))
    SERVER_CACHE.put(credentials.host, credentials.public_key, info)
    return SourceCheck(api=api, version=version, project=get_text(project, "name"))


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
