"""Runs of other agents at about the time of a run: what fell for all of them is not the agent's fault."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mosaico.comparison.baseline_runs import BaselineRun
from mosaico.comparison.baselines import list_baseline_runs
from mosaico.comparison.schemas import PeerRun
from mosaico.items.flipped import PeerMeans, item_means
from mosaico.items.queries import read_items
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import RunStatus, Validity

MAX_PEERS: Final = 8
# Runs of other agents within half a day saw the same environment as the candidate.
PEER_WINDOW: Final = timedelta(hours=12)


class PeerPair(NamedTuple):
    """A run of another agent, and the run before it."""

    run: BenchmarkRun
    baseline: BaselineRun


def list_peers(session: Session, run: BenchmarkRun) -> list[PeerPair]:
    """The last valid run of each other agent at about the time of a run, with the run before it: without one,
    nothing can be said about a change.
    """
    newest = (
        select(func.max(BenchmarkRun.seq))
        .where(
            BenchmarkRun.benchmark_id == run.benchmark_id,
            BenchmarkRun.agent_id != run.agent_id,
            BenchmarkRun.status == RunStatus.COMPLETED,
            BenchmarkRun.validity == Validity.VALID,
            BenchmarkRun.purged_at.is_(None),
            BenchmarkRun.rescore_of.is_(None),
            BenchmarkRun.created_at.between(
                run.created_at - PEER_WINDOW, run.created_at + PEER_WINDOW
            ),
        )
        .group_by(BenchmarkRun.agent_id)
    )
    statement = select(BenchmarkRun).where(BenchmarkRun.seq.in_(newest))
    statement = statement.order_by(BenchmarkRun.agent_id).limit(MAX_PEERS)
    pairs = (
        (peer, list_baseline_runs(session, peer, 1)) for peer in session.scalars(statement).all()
    )
    return [PeerPair(peer, earlier[0]) for peer, earlier in pairs if earlier]


def view_peers(pairs: Sequence[PeerPair]) -> list[PeerRun]:
    return [
        PeerRun(agent_id=run.agent_id, run_id=run.id, baseline_run_id=baseline.id)
        for run, baseline in pairs
    ]


def load_peer_means(session: Session, pairs: Sequence[PeerPair], column: str) -> list[PeerMeans]:
    """The item means of a metric in both runs of each pair."""
    return [
        PeerMeans(
            run.agent_id,
            _item_means(session, baseline, column),
            _item_means(session, BaselineRun(run.seq, run.id, run.begun_plan), column),
        )
        for run, baseline in pairs
    ]


def _item_means(session: Session, run: BaselineRun, column: str) -> dict[str, float]:
    return item_means(read_items(session, {run.seq: run.plan.columns}, [column]), column)
