"""What this process has learnt about servers, so that it asks once for each agent and hour."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.core.clock import utc_now
from app.core.http.throttle import CancelToken
from app.core.resources import Resources
from app.traces.registry import SourceCheck, TraceQuery
from app.traces.sources.langfuse.client import Client, access_of, open_client, rows_of
from app.traces.sources.langfuse.errors import AskForLess, BadResponse, LangfuseAuth, NotThere
from app.traces.sources.langfuse.payload import JSON, moment, text_of
from app.traces.sources.langfuse.retry import Patience

LASTS_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """`api` answers reads of the server; `project_id` is of the project that the key belongs to."""

    api: str
    project_id: str | None


class KnownServers:
    """By host and key, for an hour each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[tuple[str, str], tuple[float, Known]] = {}
        self._turn = threading.Lock()

    def find(self, host: str, key: str) -> Known | None:
        with self._turn:
            entry = self._entries.get((host, key))
            if entry is None or entry[0] <= self._clock():
                self._entries.pop((host, key), None)
                return None
            return entry[1]

    def keep(self, host: str, key: str, known: Known) -> None:
        with self._turn:
            self._entries[(host, key)] = (self._clock() + LASTS_S, known)

    def forget(self, host: str, key: str) -> None:
        with self._turn:
            self._entries.pop((host, key), None)


SERVERS = KnownServers()


# Whoever asks waits for it: no long waits, and the next attempt is theirs.
HURRIED: Final = Patience(request_s=8.0, retries=1, first_wait_s=0.5, rate_limit_s=3.0)


def check(resources: Resources, query: TraceQuery) -> SourceCheck:
    """Ask the server who it is and whose the keys are; remembers what it answers.

    Raises: `CollectionFailed` with a code and what to change.
    """
    access = access_of(query.url, query.public_key, query.secret_key)
    with open_client(resources, access, pause=CancelToken().pause, patience=HURRIED) as client:
        try:
            version, project = _version(client), _project(client)
            api = _api(client)
        except AskForLess as refusal:
            raise refusal.instead from None
    if project is None:
        raise LangfuseAuth(
            "the keys belong to no project; give the agent the keys of the project that holds its"
            " traces"
        )
    SERVERS.keep(access.host, access.public_key, Known(api=api, project_id=text_of(project, "id")))
    return SourceCheck(api=api, version=version, project=text_of(project, "name"))


def project_of(client: Client) -> str | None:
    """The id of the project that the keys belong to. Raises: `LangfuseAuth` for refused keys."""
    project = _project(client)
    return None if project is None else text_of(project, "id")


def _project(client: Client) -> JSON | None:
    try:
        projects = rows_of(client.get("/projects"), "GET /projects")
    except NotThere as error:
        raise BadResponse(
            f"the server has no Langfuse API ({error.detail or 'not found'}); check that"
            " langfuseUrl is the address of a Langfuse server of version 3 or newer"
        ) from None
    return projects[0] if projects else None


def _version(client: Client) -> str | None:
    try:
        return text_of(client.get("/health"), "version")
    except NotThere:
        return None


def _api(client: Client) -> str:
    now = moment(int(utc_now().timestamp() * 1000))
    try:
        client.get("/experiments", {"fromStartTime": now, "limit": 1})
    except NotThere:
        return "v3"
    return "v4"
