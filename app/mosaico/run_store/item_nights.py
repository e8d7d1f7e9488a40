"""One item in the last runs of each agent of a benchmark."""

from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.run_store.deciding_metric import DecidingMetric
from mosaico.run_store.models import BenchmarkRun

NIGHTS: Final = 30
MAX_AGENTS: Final = 8
# Agents are those of the newest runs: the list of all runs may be long.
_NEWEST_RUNS: Final = 500
_NIGHTS: Final = text(
    """
    WITH agent AS (
        SELECT agent_id, max(seq) AS newest FROM (
            SELECT agent_id, seq FROM benchmark_runs WHERE benchmark_id = :benchmark
            ORDER BY seq DESC LIMIT :newest_runs
        ) AS newest_runs GROUP BY agent_id
    ), shown AS (
        SELECT agent_id FROM (
            SELECT :agent AS agent_id, true AS is_own
            UNION ALL SELECT agent_id, false FROM agent WHERE agent_id <> :agent
        ) AS agents ORDER BY is_own DESC, agent_id LIMIT :agents
    )
    SELECT run.id, run.agent_id, run.created_at, trial.values, trial.traces
    FROM shown CROSS JOIN LATERAL (
        SELECT id, seq, agent_id, created_at, collection_id, metric_keys FROM benchmark_runs
        WHERE benchmark_id = :benchmark AND agent_id = shown.agent_id AND seq <= :until
          AND status = 'COMPLETED' AND purged_at IS NULL AND rescore_of IS NULL AND same_data_as IS NULL
        ORDER BY seq DESC LIMIT :nights
    ) AS run CROSS JOIN LATERAL (
        SELECT array_agg(result.values[array_position(run.metric_keys, :metric)] ORDER BY trace.trial) AS values,
               count(*) AS traces
        FROM collected_traces AS trace
        LEFT JOIN trace_results AS result ON result.run_seq = run.seq AND result.position = trace.position
        WHERE trace.collection_id = run.collection_id AND trace.item_id = :item
    ) AS trial
    ORDER BY run.seq
    """
)
# The window ends with the newest run, or with an older one that is shown: its last run of so many by any agent.
_UNTIL: Final = text(
    """
    SELECT CASE WHEN count(*) > :nights THEN :seq ELSE NULL END FROM (
        SELECT 1 FROM benchmark_runs
        WHERE benchmark_id = :benchmark AND agent_id = :agent AND seq >= :seq AND status = 'COMPLETED'
        LIMIT :nights + 1
    ) AS later
    """
)
_LAST_SEQ: Final = 2**62


class ItemNight(NamedTuple):
    """An item in one run of an agent: the values of its trials. Without `traces` the run
    does not have the item.
    """

    run_id: str
    agent_id: str
    created_at: datetime
    values: list[float | None] | None
    traces: int

    @property
    def value(self) -> float | None:
        """The mean over the trials; None without a value."""
        values = [value for value in self.values or () if value is not None]
        return sum(value / len(values) for value in values) if values else None

    def is_right(self, decider: DecidingMetric | None) -> bool | None:
        """Return whether the answers are right; None where nothing says so."""
        return decider.is_right(self.value) if decider else None


def list_item_nights(
    session: Session, run: BenchmarkRun, item_id: str, metric: str | None
) -> list[ItemNight]:
    """The item in the last 30 runs of each of at most 8 agents, the agent of the run first, oldest run first; for an
    older run, in the runs up to it.
    """
    own = {"benchmark": run.benchmark_id, "agent": run.agent_id, "nights": NIGHTS}
    until = session.scalar(_UNTIL, {**own, "seq": run.seq})
    rows = session.execute(
        _NIGHTS,
        {
            **own,
            "item": item_id,
            "metric": metric,
            "until": _LAST_SEQ if until is None else until,
            "agents": MAX_AGENTS,
            "newest_runs": _NEWEST_RUNS,
        },
    )
    return [ItemNight(*row) for row in rows]
