"""Which path is answered by what, and in which generation of the server."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import unquote

from tests.support.langfuse import v4, v4_scores
from tests.support.langfuse.parameters import Parameters
from tests.support.langfuse.records import JSON
from tests.support.langfuse.store import Store
from tests.support.langfuse.wire import project_json

Mode = Literal["events_only", "dual", "v3"]
PREFIX: Final = "/api/public"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """`needs` says which generation must be on; `answer` gets the decoded parts of the path."""

    method: str
    pattern: tuple[str, ...]
    answer: Callable[..., JSON]
    needs: Literal["v4", "v3", "any"]
    what: str

    def parts(self, method: str, segments: list[str]) -> list[str] | None:
        if method != self.method or len(segments) != len(self.pattern):
            return None
        pairs = list(zip(self.pattern, segments, strict=True))
        if any(mark not in ("{}", part) for mark, part in pairs):
            return None
        return [part for mark, part in pairs if mark == "{}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    route: Route
    parts: list[str]


def _projects(_: Store, asked: Parameters) -> JSON:
    asked.check()
    return {"data": [project_json()]}


def _route(
    method: str, path: str, answer: Callable[..., Any], needs: Any = "any", what: str = ""
) -> Route:
    pattern = tuple(path.strip("/").split("/"))
    return Route(method=method, pattern=pattern, answer=answer, needs=needs, what=what)


READS: Final = (
    _route("GET", "/projects", _projects),
    _route("GET", "/v2/datasets", v4.list_datasets),
    _route("GET", "/v2/datasets/{}", v4.get_dataset),
    _route("GET", "/dataset-items", v4.list_items),
    _route("GET", "/dataset-items/{}", v4.get_item),
    _route("GET", "/experiments", v4.list_experiments, "v4", "experiments"),
    _route("GET", "/experiment-items", v4.list_rows, "v4", "experiment items"),
    _route("GET", "/v2/observations", v4.list_observations, "v4", "observations v2"),
    _route("GET", "/v3/scores", v4_scores.list_scores, "v4", "scores v3"),
)


def find_route(routes: tuple[Route, ...], method: str, raw_path: str) -> Found | None:
    """A name in the path may hold anything, an encoded slash too: the raw path is cut."""
    if not raw_path.startswith(PREFIX + "/"):
        return None
    segments = [unquote(part) for part in raw_path.removeprefix(PREFIX + "/").split("/")]
    for route in routes:
        parts = route.parts(method, segments)
        if parts is not None:
            return Found(route=route, parts=parts)
    return None
