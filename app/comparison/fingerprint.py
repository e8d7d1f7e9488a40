"""Which stretch of an agent's history a run continues: in one stretch the numbers mean the same."""

import hashlib

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.comparison.baselines import last_valid_runs
from app.comparison.item_queries import REVISION
from app.results.models import BenchmarkRun
from app.results.plan import RunPlan
from app.results.queries import get_run

# So many items in common make two runs comparable as a whole, as many as a run has to cover.
MOSTLY_THE_SAME = 0.9
RUNS_BACK = 10

# What is called by its trace's id has no id of its own: it is another item in every run.
ITEMS = """
    FROM collected_traces AS trace
    WHERE trace.collection_id = ANY(:collections) AND trace.item_id <> trace.trace_id
"""
SHARED = text(
    f"""
    SELECT count(*) FILTER (WHERE item.first <> item.last), count(*)
    FROM (SELECT min(trace.collection_id) AS first, max(trace.collection_id) AS last {ITEMS}
          GROUP BY hashtextextended(trace.item_id || {REVISION}, 0)) AS item
    """  # noqa: S608 - only constants
)
# This one is stored, and MD5s are the same in every version of Postgres.
DIGEST = text(
    f"""
    SELECT md5(string_agg(item.digest, '' ORDER BY item.digest COLLATE "C"))
    FROM (SELECT DISTINCT md5(trace.item_id) || {REVISION} AS digest {ITEMS}) AS item
    """  # noqa: S608
)


def find_fingerprint(session: Session, run_id: str, plan: RunPlan) -> str:
    """The fingerprint of a run whose traces are all there: equal for runs that are one history.

    A run that does the same as an earlier one, on the same items but for a tenth, goes on with the
    history of that one; any other begins a new one, named by what it does and by its items.
    """
    session.execute(text("SET LOCAL statement_timeout = 0"))
    run, meaning = get_run(session, run_id), plan.fingerprint()
    for earlier in last_valid_runs(session, run, RUNS_BACK):
        if RunPlan.model_validate(earlier.plan).fingerprint() == meaning:
            if earlier.fingerprint and _mostly_the_same(session, run, earlier):
                return earlier.fingerprint
            break
    items = session.scalar(DIGEST, {"collections": [run.collection_id]}) or ""
    return hashlib.sha256(f"{meaning}{items}".encode()).hexdigest()


def _mostly_the_same(session: Session, run: BenchmarkRun, earlier: BenchmarkRun) -> bool:
    """Whether two runs have nine tenths of their items in common, or none that has an id."""
    if run.collection_id == earlier.collection_id:
        return True
    asked = {"collections": [run.collection_id, earlier.collection_id]}
    shared, total = session.execute(SHARED, asked).one()
    return bool(shared >= MOSTLY_THE_SAME * total)
