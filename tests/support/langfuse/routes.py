"""Routes: paths, their handlers and the API version that they require."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote

from tests.support.langfuse import annotation_queues, v3, v4, v4_scores
from tests.support.langfuse.ingestion import ingest_batch
from tests.support.langfuse.json_v4 import project_json
from tests.support.langfuse.metrics import query_metrics
from tests.support.langfuse.otlp import ingest_spans
from tests.support.langfuse.parameters import Parameters
from tests.support.langfuse.records import JSON
from tests.support.langfuse.store import Store
from tests.support.langfuse.writes import (
    WriteRequest,
    WriteResponse,
    create_dataset,
    create_item,
    create_scores,
)

Mode = Literal["events_only", "dual", "v3"]
RequiredApi = Literal["v4", "v3", "any"]
Reader = Callable[..., JSON]
Writer = Callable[[WriteRequest], WriteResponse]
PREFIX: Final = "/api/public"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route; a reader gets the decoded parameters of the path."""

    pattern: tuple[str, ...]
    required_api: RequiredApi
    api_name: str = ""
    read: Reader | None = None
    write: Writer | None = None

    def match_path(self, method: str, segments: list[str]) -> list[str] | None:
        expected = "GET" if self.read is not None else "POST"
        if method != expected or len(segments) != len(self.pattern):
            return None
        pairs = list(zip(self.pattern, segments, strict=True))
        if any(mark not in ("{}", part) for mark, part in pairs):
            return None
        return [part for mark, part in pairs if mark == "{}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteMatch:
    route: Route
    parts: list[str]


def _projects(_: Store, parameters: Parameters) -> JSON:
    parameters.check()
    return {"data": [project_json()]}


def _read(path: str, read: Reader, needs: RequiredApi = "any", what: str = "") -> Route:
    return Route(pattern=_pattern(path), read=read, required_api=needs, api_name=what)


def _write(path: str, write: Writer, needs: RequiredApi = "any") -> Route:
    return Route(pattern=_pattern(path), write=write, required_api=needs)


def _pattern(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))


READS: Final = (
    _read("/projects", _projects),
    _read("/v2/datasets", v4.list_datasets),
    _read("/v2/datasets/{}", v4.get_dataset),
    _read("/dataset-items", v4.list_items),
    _read("/dataset-items/{}", v4.get_item),
    _read("/annotation-queues/{}", annotation_queues.get_queue),
    _read("/annotation-queues/{}/items", annotation_queues.list_queue_items),
    _read("/experiments", v4.list_experiments, "v4", "experiments"),
    _read("/experiment-items", v4.list_rows, "v4", "experiment items"),
    _read("/v2/observations", v4.list_observations, "v4", "observations v2"),
    _read("/v3/scores", v4_scores.list_scores, "v4", "scores v3"),
    _read("/v2/metrics", query_metrics, "v4", "metrics v2"),
    _read("/datasets/{}/runs", v3.list_runs, "v3"),
    _read("/datasets/{}/runs/{}", v3.get_run, "v3"),
    _read("/dataset-run-items", v3.list_run_items, "v3"),
    _read("/traces", v3.list_traces, "v3"),
    _read("/traces/{}", v3.get_trace, "v3"),
    _read("/observations", v3.list_observations, "v3"),
    _read("/v2/scores", v3.list_scores, "v3"),
)


WRITES: Final = (
    _write("/v2/datasets", create_dataset),
    _write("/dataset-items", create_item),
    _write("/scores", create_scores),
    _write("/annotation-queues/{}/items", annotation_queues.create_queue_item),
    _write("/otel/v1/traces", ingest_spans),
    _write("/ingestion", ingest_batch),
)


def find_route(method: str, path: str) -> RouteMatch | None:
    """Match the raw path, because a name in it can contain an encoded slash."""
    segments = [unquote(part) for part in path.removeprefix("/").split("/")]
    for route in (*READS, *WRITES):
        parts = route.match_path(method, segments)
        if parts is not None:
            return RouteMatch(route=route, parts=parts)
    return None
