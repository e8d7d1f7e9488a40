"""Finds agents, benchmarks and runs by what a model calls them: an ID, a name, or a part of a name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mosaico.core.console.api_calls import QueryValue
from mosaico.core.console.api_responses import JSON, parse_response
from mosaico.core.console.short_ids import LATEST
from mosaico.core.errors import BadUsage, NotFound
from mosaico.core.ids import is_identifier
from mosaico.core.web.page_paths import path_of
from mosaico.mcp_server.envelope import enclose
from mosaico.overview.schemas import SearchKind, SearchResult
from mosaico.run_store.rules import RunStatus
from mosaico.runs.schemas import RunView
from mosaico.sdk.client import Client

MAX_SEARCHED: Final = 100
_SHOWN_MATCHES: Final = 10
_RUN_ID: Final = re.compile(r"[0-9a-f]{2,8}|[0-9a-f]{8}-[0-9a-f-]{0,27}")
ENDED: Final = [str(status) for status in RunStatus if status.is_final]


class ToolRefusal(BadUsage):
    """A tool cannot do what its arguments say; the message names what to pass. Texts of others in it are enclosed."""


class UnknownName(ToolRefusal):
    """Nothing has this name, or several things have it; pass an ID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceView:
    """The service as the caller of a tool sees it: with the role and the limits of the caller's key."""

    client: Client
    pages_url: str

    def page(self, path: str) -> str:
        """The address of a page for people."""
        return f"{self.pages_url}{path}"


class Owner(NamedTuple):
    """An agent or a benchmark."""

    id: str
    name: str


class RunOwners(NamedTuple):
    """What limits a search of runs; None for all."""

    agent: Owner | None
    benchmark: Owner | None

    @property
    def filters(self) -> dict[str, QueryValue]:
        """The filters of lists of the API."""
        return {
            "agentId": self.agent.id if self.agent else None,
            "benchmarkId": self.benchmark.id if self.benchmark else None,
        }


def find_owners(view: ServiceView, agent: str | None, benchmark: str | None) -> RunOwners:
    """The agent and the benchmark with these names or IDs, where one is given."""
    return RunOwners(
        find_agent(view, agent) if agent is not None else None,
        find_benchmark(view, benchmark) if benchmark is not None else None,
    )


def find_agent(view: ServiceView, text: str) -> Owner:
    """The agent with this ID, name or part of a name. Raises: `UnknownName`."""
    document = _document(view, "agents", text)
    if document is not None:
        return Owner(str(document["id"]), str(document["name"]))
    return _only_match(view, SearchKind.AGENT, text)


def find_benchmark(view: ServiceView, text: str) -> Owner:
    """The benchmark with this ID, name or part of a name. Raises: `UnknownName`."""
    document = _document(view, "benchmarks", text)
    if document is not None:
        return Owner(str(document["id"]), benchmark_name(document))
    return _only_match(view, SearchKind.BENCHMARK, text)


def benchmark_name(document: JSON) -> str:
    """The name that people gave to a benchmark, otherwise its ID."""
    name = document["metadata"].get("name")
    return name if isinstance(name, str) and name else str(document["id"])


def find_run(view: ServiceView, text: str, owners: RunOwners) -> RunView:
    """The run with this ID, beginning of an ID or run name; for `latest` the newest one that has ended.

    Raises: `UnknownName`, `WrongUsage` for a beginning of several IDs.
    """
    if text == LATEST:
        return _newest_run(view, owners)
    if _RUN_ID.fullmatch(text):
        try:
            return view.client.run(text)
        except NotFound:
            # A run name may look like the beginning of an ID.
            pass
    page = view.client.get("/benchmark-runs", text=text[:200], limit=MAX_SEARCHED, **owners.filters)
    runs = [run for run in _runs(page) if run.run_name == text]
    match runs:
        case [run]:
            return run
        case []:
            raise UnknownName(
                f"no run has the ID or the run name {enclose(text)}; `find` with kind `runs` lists them"
            )
        case _:
            listed = [f"{run.id} of {run.created_at:%Y-%m-%d %H:%M} UTC" for run in runs]
            raise UnknownName(
                f"{len(runs)} runs are called {enclose(text)}; pass one of these IDs: {_some(listed)}"
            )


def search_owners(view: ServiceView, kind: SearchKind, text: str) -> list[Owner]:
    """The agents or benchmarks with this text in their name or ID, at most `MAX_SEARCHED`."""
    owners: list[Owner] = []
    cursor: str | None = None
    while len(owners) < MAX_SEARCHED:
        document = view.client.get(
            "/overview/search", text=text[:200], kind=str(kind), cursor=cursor
        )
        groups = parse_response(SearchResult, document).groups
        owners += [Owner(match.id, match.name) for group in groups for match in group.matches]
        cursor = groups[0].next_cursor if groups else None
        if cursor is None:
            break
    return owners


def _document(view: ServiceView, collection: str, text: str) -> JSON | None:
    if not is_identifier(text):
        return None
    try:
        return view.client.get(path_of(collection, text))
    except NotFound:
        return None


def _only_match(view: ServiceView, kind: SearchKind, text: str) -> Owner:
    owners = search_owners(view, kind, text)
    exact = [owner for owner in owners if owner.name.casefold() == text.casefold()]
    candidates = exact or owners
    if len(candidates) == 1:
        return candidates[0]
    noun = kind.value.lower()
    if not candidates:
        raise UnknownName(
            f"no {noun} is called {enclose(text)}; `find` with kind `{noun}s` lists them"
        )
    listed = [f"{owner.id} {enclose(owner.name)}" for owner in candidates]
    raise UnknownName(
        f"{len(candidates)} {noun}s are called {enclose(text)}; pass one of these IDs: {_some(listed)}"
    )


def _newest_run(view: ServiceView, owners: RunOwners) -> RunView:
    page = view.client.get("/benchmark-runs", status=ENDED, limit=1, **owners.filters)
    if not page["items"]:
        raise UnknownName(
            "no run has ended yet; `find` with kind `runs` lists the runs in progress"
        )
    return _runs(page)[0]


def _runs(page: JSON) -> list[RunView]:
    return [parse_response(RunView, item) for item in page["items"]]


def _some(listed: Sequence[str]) -> str:
    more = len(listed) - _SHOWN_MATCHES
    shown = ", ".join(listed[:_SHOWN_MATCHES])
    return f"{shown}, and {more} more" if more > 0 else shown
