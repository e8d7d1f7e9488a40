"""What the alert rules made of the runs, as it is stored with each run."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.core.batches import batched
from mosaico.run_store.models import RunEvaluation

# A row is small; a run has at most a thousand.
_ROWS_PER_STATEMENT = 100


def store_evaluations(session: Session, evaluations: Sequence[RunEvaluation]) -> None:
    """Store the evaluations of one run."""
    for batch in batched(evaluations, _ROWS_PER_STATEMENT):
        session.add_all(batch)
        session.flush()


def list_evaluations(session: Session, run_seq: int) -> list[RunEvaluation]:
    """The evaluations of a run, by the name of the rule."""
    statement = select(RunEvaluation).where(RunEvaluation.run_seq == run_seq)
    return list(session.scalars(statement.order_by(RunEvaluation.rule_name, RunEvaluation.rule_id)))
