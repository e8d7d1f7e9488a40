"""Comparability fingerprint: runs that share it may be compared."""

import hashlib

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.comparison.baselines import list_last_valid_runs
from mosaico.items.queries import REVISION
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.plan import RunPlan

# The share of common items that makes two runs comparable; the default of `minCoverage` is the same.
MIN_SHARED_ITEMS = 0.9
RUNS_BACK = 10

# A trace without an item ID of its own is identified by its trace ID, and so is another item in
# every run: it must not count as a difference.
_ITEMS = """
    FROM collected_traces AS trace
    WHERE trace.collection_id = ANY(:collections) AND trace.item_id <> trace.trace_id
"""
# Hashes of 64 bits take less memory than MD5s, and a collision would only change a count by one.
SHARED_ITEMS = text(
    f"""
    SELECT count(*) FILTER (WHERE item.first <> item.last), count(*)
    FROM (SELECT min(trace.collection_id) AS first, max(trace.collection_id) AS last {_ITEMS}
          GROUP BY hashtextextended(trace.item_id || {REVISION}, 0)) AS item
    """  # noqa: S608 - only constants
)
# This digest is stored, so it is an MD5, which is the same in every version of Postgres.
ITEMS_DIGEST = text(
    f"""
    SELECT md5(string_agg(item.digest, '' ORDER BY item.digest COLLATE "C"))
    FROM (SELECT DISTINCT md5(trace.item_id) || {REVISION} AS digest {_ITEMS}) AS item
    """  # noqa: S608
)


def find_fingerprint(session: Session, run: BenchmarkRun, plan: RunPlan) -> str:
    """The fingerprint of a run whose traces are all collected.

    A run with the same plan as an earlier one, and nine tenths of its items, takes over that run's
    fingerprint. Otherwise the fingerprint is a digest of its plan and its items.
    """
    # A job calls this, and the items of a large run take longer than a request may.
    session.execute(text("SET LOCAL statement_timeout = 0"))
    plan_fingerprint = plan.fingerprint()
    for earlier in list_last_valid_runs(session, run, RUNS_BACK):
        if earlier.begun_plan.completed_by(plan).fingerprint() == plan_fingerprint:
            if earlier.fingerprint and _share_most_items(session, run, earlier):
                return earlier.fingerprint
            # Only the newest run of the same plan counts: items may drift back and forth otherwise.
            break
    items = session.scalar(ITEMS_DIGEST, {"collections": [run.collection_id]}) or ""
    return hashlib.sha256(f"{plan_fingerprint}{items}".encode()).hexdigest()


def _share_most_items(session: Session, run: BenchmarkRun, earlier: BenchmarkRun) -> bool:
    """Return whether two runs share nine tenths of their items, or have no item with an ID."""
    # The same traces, for example of a rescored run.
    if run.collection_id == earlier.collection_id:
        return True
    collections = [run.collection_id, earlier.collection_id]
    shared, total = session.execute(SHARED_ITEMS, {"collections": collections}).one()
    return bool(shared >= MIN_SHARED_ITEMS * total)
