"""What changed between the last good run and a breach."""

from collections.abc import Sequence

from mosaico.alerts.rules import AlertOutcome, Assessment
from mosaico.comparison.baseline_runs import BaselineRun
from mosaico.comparison.run_attributes import compare_attributes
from mosaico.core.db import Database
from mosaico.run_store.recorded_attributes import WhatChanged
from mosaico.run_store.run_history import PastRun, read_plan
from mosaico.run_store.run_result import RunResult


class ChangeFinder:
    """Finds what changed before a breach; each earlier run is read once, however many rules breach."""

    def __init__(self, db: Database, result: RunResult) -> None:
        self._db = db
        self._result = result
        self._changes: dict[int, WhatChanged | None] = {}

    def find(
        self, assessment: Assessment, columns: Sequence[str], previous: PastRun | None
    ) -> WhatChanged | None:
        """What changed since `previous`; None for a run that does not breach, and without an earlier run."""
        if assessment.outcome is not AlertOutcome.BREACH or previous is None:
            return None
        recorded = self._result.record.what_changed if self._result.record else None
        if recorded is not None and recorded.baseline_run_id == previous.id:
            return recorded
        if previous.seq not in self._changes:
            self._changes[previous.seq] = self._compare(previous, next(iter(columns), None))
        return self._changes[previous.seq]

    def _compare(self, previous: PastRun, column: str | None) -> WhatChanged | None:
        result = self._result
        with self._db.read() as session:
            plan = read_plan(session, previous.seq)
        if plan is None:
            return None
        earlier = BaselineRun(previous.seq, previous.id, plan)
        run = BaselineRun(result.run_seq, result.run_id, result.plan)
        return compare_attributes(self._db, earlier, run, column)
