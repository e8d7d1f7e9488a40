"""A metric and a trace source that wait at gates, and store the scores that are written back.

Worker processes load them by entry point from a test distribution; the test opens the gates.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from app.core import db
from app.core.resources import Resources
from app.metrics.types import MetricProvider, MetricSpec
from app.traces.registry import (
    TRACE_SOURCES,
    NewScore,
    SourceSpec,
    TracePage,
    TraceQuery,
    TraceSource,
)
from app.traces.types import Trace

FOLDER = "MOSAICO_TEST_GATES"
SOURCE_RUN_AT = datetime(2026, 11, 21, tzinfo=UTC)
ENTRY_POINTS = """\
[mosaico.metrics]
gates = tests.support.gates:register_metrics
[mosaico.trace_sources]
gates = tests.support.gates:register_sources
"""


@dataclass(frozen=True, slots=True)
class Gate:
    """A place where a worker waits until the test opens it."""

    folder: Path
    name: str

    def is_reached(self) -> bool:
        return self._mark("reached").exists()

    def open(self) -> None:
        self._mark("open").touch()

    def pass_through(self) -> None:
        """Wait in the worker until the gate is open."""
        self._mark("reached").touch()
        while not self._mark("open").exists():
            time.sleep(0.01)

    def _mark(self, what: str) -> Path:
        return self.folder / f"{self.name}.{what}"


def install(folder: Path) -> None:
    """Create a distribution with the plugin entry points; `folder` must be on the import path."""
    metadata_folder = folder / "gates-1.0.dist-info"
    metadata_folder.mkdir(parents=True)
    (metadata_folder / "METADATA").write_text("Metadata-Version: 2.1\nName: gates\nVersion: 1.0\n")
    (metadata_folder / "entry_points.txt").write_text(ENTRY_POINTS)


class GateMetric:
    """1.0 for every trace; the tags `gate:NAME`, `hang` and `segfault` trigger the named behavior."""

    spec = MetricSpec(key="GATE", description="Waits.", source="tests")

    def supports(self, _: Trace) -> bool:
        return True

    def compute(self, trace: Trace) -> float:
        for tag in trace.tags:
            match tag.partition(":"):
                case ("gate", _, name):
                    _gate(name).pass_through()
                case ("hang", _, _):
                    while True:
                        time.sleep(1)
                case ("segfault", _, _):
                    os.kill(os.getpid(), signal.SIGSEGV)
        return 1.0


class GatedSource:
    """The local source; in runs named `gate:NAME` every page but the very first waits at the gate.

    That includes the first page of a resumed collection: the worker that resumes it waits, too.
    """

    def __init__(self, behind: TraceSource) -> None:
        self._behind = behind

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        for number, page in enumerate(self._behind.pages(query, cursor)):
            if (number or cursor) and (query.run_name or "").startswith("gate:"):
                _gate((query.run_name or "").removeprefix("gate:")).pass_through()
            yield replace(page, run_id=query.run_name, run_at=SOURCE_RUN_AT)


class WrittenScore(NamedTuple):
    """A score that was written back to the gated source."""

    id: str
    run_id: str
    name: str
    trace_id: str | None
    value: float
    at: str


def written_scores(folder: Path, run_id: str) -> list[WrittenScore]:
    """Every score that was written for a run of the source, including repeated writes."""
    path = _scores_of(folder, run_id)
    lines = path.read_text().splitlines() if path.exists() else []
    return [WrittenScore(*json.loads(line)) for line in lines]


def _scores_of(folder: Path, run_id: str) -> Path:
    return folder / f"{run_id}.scores"


def register_metrics(register: Callable[[str, Callable[..., MetricProvider]], object]) -> None:
    register("GATE", GateMetric)


def register_sources(register: Callable[[str, SourceSpec], object]) -> None:
    # A test may hold a statement for long, for example on a loaded machine.
    db.STATEMENT_TIMEOUT_MS = 330_000
    register("gated", SourceSpec(open=_open_gated, write_scores=_write_scores))


def _open_gated(resources: Resources) -> TraceSource:
    return GatedSource(TRACE_SOURCES.get("local").open(resources))


def _write_scores(_: Resources, __: TraceQuery, scores: Sequence[NewScore]) -> Iterator[None]:
    rows = [
        WrittenScore(
            score.id, score.run_id, score.name, score.trace_id, score.value, score.at.isoformat()
        )
        for score in scores
    ]
    for row in rows:
        with _scores_of(Path(os.environ[FOLDER]), row.run_id).open("a") as file:
            file.write(json.dumps(row) + "\n")
    yield


def _gate(name: str) -> Gate:
    return Gate(Path(os.environ[FOLDER]), name)
