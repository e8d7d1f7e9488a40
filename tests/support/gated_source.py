"""A trace source that waits at gates, and stores the scores that are written back.

Worker processes load it by entry point from the distribution of `tests.support.gates`. Pages and
shards are a twentieth of their real size: a run of several pages and shards then takes a fraction of
the time.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from mosaico.core import engine
from mosaico.core.resources import Resources
from mosaico.runs import shards
from mosaico.traces.registry import (
    NewScore,
    SourceSpec,
    TracePage,
    TraceQuery,
    TraceSource,
)
from tests.support.gates import FOLDER, gate
from tests.support.paged_source import PagedSource

SOURCE_RUN_AT = datetime(2026, 11, 21, tzinfo=UTC)
PAGE_TRACES = 25
SHARD_TRACES = 100


class GatedSource:
    """A source that reads an upload; in runs named `gate:NAME` every page but the very first waits at the gate.

    That includes the first page of a resumed collection: the worker that resumes it waits, too. Runs named
    `kill:NAME` kill their worker when the gate is open.
    """

    def __init__(self, behind: TraceSource) -> None:
        self._behind = behind

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        kind, _, name = (query.run_name or "").partition(":")
        for number, page in enumerate(self._behind.pages(query, cursor)):
            if kind == "kill" or (kind == "gate" and (number or cursor)):
                gate(name).pass_through()
            # Before the page is given out: the worker dies with a page
            # that it has read and not stored.
            if kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
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


def register_sources(register: Callable[[str, SourceSpec], object]) -> None:
    # A test may hold a statement for long, for example on a loaded machine.
    engine.LIMITS_MS["statement_timeout"] = 330_000
    shards.SHARD_TRACES = SHARD_TRACES
    register("gated", SourceSpec(open=_open_gated, write_scores=_write_scores))


def _open_gated(resources: Resources) -> TraceSource:
    return GatedSource(PagedSource(resources=resources, page_size=PAGE_TRACES))


def _write_scores(_: Resources, __: TraceQuery, scores: Sequence[NewScore]) -> Iterator[None]:
    rows = [
        WrittenScore(
            score.id, score.run_id, score.name, score.trace_id, score.value, score.at.isoformat()
        )
        for score in scores
    ]
    for row in rows:
        # Appended, never replaced: the tests see repeated writes, which a real source would merge.
        with _scores_of(Path(os.environ[FOLDER]), row.run_id).open("a") as file:
            file.write(json.dumps(row) + "\n")
    yield
