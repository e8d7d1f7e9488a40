"""Reads of what the traces of runs record."""

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.run_store.models import BenchmarkRun, RunAttributes
from mosaico.run_store.recorded_attributes import RunRecord, WhatChanged
from mosaico.run_store.revision_authors import with_authors


def read_recorded_changes(session: Session, run_ids: Collection[str]) -> dict[str, WhatChanged]:
    """What changed since their baseline, by run; runs without a baseline, and of earlier versions, are left out."""
    statement = (
        select(BenchmarkRun.id, RunAttributes.record)
        .join(RunAttributes, RunAttributes.run_seq == BenchmarkRun.seq)
        .where(BenchmarkRun.id.in_(run_ids))
    )
    changes = {
        run_id: record.what_changed
        for run_id, record in session.execute(statement)
        if record.what_changed is not None
    }
    return with_authors(session, changes)


def read_run_record(session: Session, run: BenchmarkRun) -> RunRecord:
    """What the traces of a run record; an empty record where none was stored."""
    stored = session.get(RunAttributes, run.seq)
    if stored is None:
        return RunRecord()
    changes = read_recorded_changes(session, [run.id])
    return stored.record.model_copy(update={"what_changed": changes.get(run.id)})
