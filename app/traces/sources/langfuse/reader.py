"""The two generations of the API behind one interface: find a run, read it page by page."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from app.traces.sources.langfuse.payload import JSON
from app.traces.types import Trace


class ApiVersionMismatch(Exception):
    """The server does not offer this generation of the API; `detail` is its word."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseDataset:
    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRun:
    """A run as the server describes it now; times in milliseconds since 1970.

    `count` is how many traces the server says there are.
    """

    id: str
    name: str
    dataset_name: str | None
    start: int
    end: int
    item_count: int

    def to_json(self) -> JSON:
        return {
            "id": self.id,
            "name": self.name,
            "dataset": self.dataset_name,
            "start": self.start,
            "end": self.end,
            "count": self.item_count,
        }

    @classmethod
    def from_json(cls, document: JSON) -> "ExperimentRun":
        return cls(
            id=str(document["id"]),
            name=str(document["name"]),
            dataset_name=document["dataset"],
            start=int(document["start"]),
            end=int(document["end"]),
            item_count=int(document["count"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceBatch:
    """Some traces, and where to go on (None: there is no more).

    `circled`: the server repeated itself, and what would have followed was not read.
    """

    traces: tuple[Trace, ...]
    remaining: JSON | None
    loop_detected: bool = False


class RunReader(Protocol):
    """One generation of the API.

    `find` looks for a run by name, then by id, or for the newest; `runs` lists the newest of a
    dataset, `known` names for a message. All three raise `OtherGeneration`. `pages` goes on after
    `rest`.
    """

    @property
    def api(self) -> str: ...

    def find_run(
        self, dataset: LangfuseDataset | None, name: str | None
    ) -> ExperimentRun | None: ...

    def list_runs(self, dataset: LangfuseDataset) -> list[ExperimentRun]: ...

    def list_run_names(self, dataset: LangfuseDataset | None) -> list[str]: ...

    def read_batches(self, run: ExperimentRun, remaining: JSON | None) -> Iterator[TraceBatch]: ...


TraceLink = Callable[[str, str | None], str | None]


def make_trace_link(host: str, project_id: str | None) -> TraceLink:
    """Addresses of traces in the web page of Langfuse: by trace, and the span to show."""

    def link(trace_id: str, span_id: str | None) -> str | None:
        if project_id is None:
            return None
        shown = f"?observation={quote(span_id, safe='')}" if span_id else ""
        project, trace = quote(project_id, safe=""), quote(trace_id, safe="")
        return f"{host}/project/{project}/traces/{trace}{shown}"

    return link
