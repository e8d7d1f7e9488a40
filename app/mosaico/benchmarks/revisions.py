"""Revisions of a benchmark: each edit is counted, with what it changed and why."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from mosaico.benchmarks.models import Benchmark, BenchmarkRevision


def split_note(values: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """The fields to write, and the note of the revision."""
    fields = {name: value for name, value in values.items() if name != "revision_note"}
    return fields, values.get("revision_note")


def add_revision(
    session: Session,
    benchmark: Benchmark,
    now: datetime,
    changes: Sequence[str],
    note: str | None = None,
) -> None:
    """Count an edit of a benchmark. One of a KPI counts, too: the view of the benchmark, and so its ETag,
    has the KPIs.
    """
    benchmark.revision += 1
    benchmark.updated_at = now
    session.add(
        BenchmarkRevision(
            benchmark_id=benchmark.id,
            revision=benchmark.revision,
            changes=list(changes),
            revision_note=note,
            changed_at=now,
        )
    )
    session.flush()
