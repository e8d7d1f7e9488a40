"""The errors of a run by the rule that classed them."""

from typing import Final

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from mosaico.run_store.models import BenchmarkRun, TraceResult
from mosaico.run_store.trace_list import outcome_in_run
from mosaico.traces.error_groups import ErrorGroup, ErrorTally
from mosaico.traces.models import CollectedTrace
from mosaico.traces.types import TraceOutcome

# A range of the primary key: a run may have a million traces, and nothing finds its errors.
MAX_TRACES: Final = 20_000
# Of a long message its end decides, which names the exception.
_END_CHARS: Final = 4_000


def list_run_errors(session: Session, run: BenchmarkRun) -> list[ErrorGroup]:
    """The errors among the first `MAX_TRACES` traces of a run by rule, the most frequent first."""
    error = CollectedTrace.error
    short = case(
        (func.length(error) <= 2 * _END_CHARS, error),
        else_=func.concat(func.left(error, _END_CHARS), "\n", func.right(error, _END_CHARS)),
    )
    statement = (
        select(
            CollectedTrace.trace_id, CollectedTrace.outcome, short.label("error"), TraceResult.notes
        )
        .outerjoin(
            TraceResult,
            (TraceResult.run_seq == run.seq) & (TraceResult.position == CollectedTrace.position),
        )
        .where(
            CollectedTrace.collection_id == run.collection_id,
            CollectedTrace.position < MAX_TRACES,
            CollectedTrace.outcome != TraceOutcome.SCORED,
        )
        .order_by(CollectedTrace.position)
    )
    tally = ErrorTally(run.plan.infra_errors if run.plan else ())
    for row in session.execute(statement):
        tally.add(row.trace_id, TraceOutcome(outcome_in_run(row.outcome, row.notes)), row.error)
    return tally.groups
