"""Comparisons of completed runs, computed once: stored at first sight, and one computation for all who wait for it."""

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import cache
from importlib.metadata import version
from typing import Any, Final, NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mosaico.agents.queries import get_agent
from mosaico.comparison import stored_run_comparison
from mosaico.comparison.measured_runs import read_measured_runs
from mosaico.comparison.models import StoredComparison
from mosaico.comparison.peers import list_peers
from mosaico.comparison.schemas import Comparison
from mosaico.comparison.stored_run_comparison import (
    ComparisonRequest,
    RequestedRuns,
    get_requested_runs,
)
from mosaico.core.db import Database
from mosaico.traces.reader_versions import FILE_READERS, SOURCE_READERS

# Raise it when the same runs are compared in another way, so that stored comparisons are computed again.
METHOD_VERSION: Final = 1
# Of a run as baseline, and as candidate: the newest ones are kept.
MAX_STORED: Final = 100
# Then a page says that the runs are being compared, and looks again.
PAGE_WAIT_S = 0.8
# Results that nobody has fetched yet.
MAX_UNFETCHED: Final = 16


_SIDES: Final = (StoredComparison.candidate_seq, StoredComparison.baseline_seq)


class _Keys(NamedTuple):
    """Where a comparison is stored; `pair` is None for one with several baseline runs, which is not stored."""

    request_digest: str
    inputs_digest: str
    pair: tuple[int, int] | None


def compare_stored(db: Database, request: ComparisonRequest) -> Comparison:
    """The stored comparison, or a new one, which is stored.

    Raises: the errors of `compare_in_child`.
    """
    comparison = compare_within(db, request, None)
    assert comparison is not None
    return comparison


def compare_for_page(db: Database, request: ComparisonRequest) -> Comparison | None:
    """The comparison if it is there soon; otherwise None, and the page looks again: see `compare_within`."""
    return compare_within(db, request, PAGE_WAIT_S)


def compare_within(
    db: Database, request: ComparisonRequest, timeout_s: float | None
) -> Comparison | None:
    """The comparison if it is stored or computed within a time; otherwise None: the computation goes on, and a later
    call with the same request gets its result.

    Raises: the errors of `compare_in_child`.
    """
    with db.read() as session:
        runs = get_requested_runs(session, request)
        keys = _keys_of(session, request, runs)
        stored = _find(session, keys)
    key = keys.request_digest + keys.inputs_digest
    if stored is not None:
        PENDING.forget(key)
        return stored

    def compute() -> Comparison:
        comparison = stored_run_comparison.compare_in_child(db, request)
        _store(db, keys, comparison)
        return comparison

    return PENDING.result(key, compute, timeout_s)


def delete_comparisons_of(session: Session, run_seq: int) -> None:
    """Delete the comparisons of a run, whose values are deleted."""
    for column in _SIDES:
        session.execute(delete(StoredComparison).where(column == run_seq))


def _evict_old(session: Session, pair: tuple[int, int]) -> None:
    """Delete the oldest comparisons of two runs that have more than `MAX_STORED`."""
    for column, run_seq in zip(_SIDES, pair, strict=True):
        old = (
            select(StoredComparison.request_digest)
            .where(column == run_seq)
            .order_by(StoredComparison.created_at.desc(), StoredComparison.request_digest)
            .offset(MAX_STORED)
            .limit(MAX_STORED)
        )
        session.execute(
            delete(StoredComparison)
            .where(StoredComparison.request_digest.in_(old))
            .execution_options(synchronize_session=False)
        )


class PendingComparisons:
    """The computations of this process: requests for the same comparison wait for one of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._futures: dict[str, Future[Comparison]] = {}

    def result(
        self, key: str, compute: Callable[[], Comparison], timeout_s: float | None
    ) -> Comparison | None:
        """The result of the computation of a key, which is started if there is none; None after `timeout_s`.

        Raises: what the computation raises.
        """
        with self._lock:
            future = self._futures.get(key)
            if future is None:
                future = self._futures[key] = Future()
                self._drop_unfetched()
                # A daemon: the end of the process does not wait for it.
                threading.Thread(target=_fill, args=(future, compute), daemon=True).start()
        if not wait([future], timeout_s).done:
            return None
        self.forget(key)
        return future.result()

    def forget(self, key: str) -> None:
        """Drop the result of a key."""
        with self._lock:
            if (future := self._futures.get(key)) is not None and future.done():
                del self._futures[key]

    def _drop_unfetched(self) -> None:
        done = [key for key, future in self._futures.items() if future.done()]
        for key in done[:-MAX_UNFETCHED]:
            del self._futures[key]


PENDING: Final = PendingComparisons()


def _fill(future: Future[Comparison], compute: Callable[[], Comparison]) -> None:
    try:
        future.set_result(compute())
    except BaseException as error:  # noqa: BLE001 - those who wait get it
        future.set_exception(error)


def _keys_of(session: Session, request: ComparisonRequest, runs: RequestedRuns) -> _Keys:
    candidate, baselines = runs.candidate, runs.baseline
    asked = [candidate.seq, [run.seq for run in baselines], *request[2:]]
    # What may change after both runs have ended, and the code that computes.
    inputs = [
        _code_version(),
        [
            [run.validity, run.fingerprint, run.validity_reasons, run.metric_keys]
            for run in (candidate, *baselines)
        ],
        # The links of the traces.
        [
            get_agent(session, id_).revision
            for id_ in sorted({run.agent_id for run in (candidate, *baselines)})
        ],
        read_measured_runs(session, candidate.seq),
        [[peer.run.seq, peer.baseline.seq] for peer in list_peers(session, candidate)],
        stored_run_comparison.lost_columns(runs),
    ]
    pair = (candidate.seq, baselines[0].seq) if len(baselines) == 1 else None
    return _Keys(_digest(asked), _digest(inputs), pair)


@cache
def _code_version() -> list[Any]:
    schema = Comparison.model_json_schema()
    return [version("mosaico"), METHOD_VERSION, _digest([schema, SOURCE_READERS, FILE_READERS])]


def _digest(values: Sequence[Any]) -> str:
    document = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(document.encode()).hexdigest()


def _find(session: Session, keys: _Keys) -> Comparison | None:
    row = session.get(StoredComparison, keys.request_digest)
    if row is None or row.inputs_digest != keys.inputs_digest:
        return None
    return Comparison.model_validate_json(row.document)


def _store(db: Database, keys: _Keys, comparison: Comparison) -> None:
    if keys.pair is None:
        return
    candidate_seq, baseline_seq = keys.pair
    values = {
        "inputs_digest": keys.inputs_digest,
        "document": comparison.model_dump_json(by_alias=True),
    }
    statement = insert(StoredComparison).values(
        request_digest=keys.request_digest,
        candidate_seq=candidate_seq,
        baseline_seq=baseline_seq,
        **values,
    )
    try:
        with db.begin() as session:
            session.execute(
                statement.on_conflict_do_update(index_elements=["request_digest"], set_=values)
            )
            _evict_old(session, keys.pair)
    except IntegrityError:
        # One of the runs was deleted meanwhile.
        return
