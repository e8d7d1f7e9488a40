"""The metrics of a shard that come from a model on a server.

    requests, in a child → answers that are kept → the others, from the server → values, in a child

Whoever does the shard again after a kill asks for those answers only that were under way. Nothing
waits for the server inside a transaction.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from app.core.http.throttle import CancelToken
from app.core.resources import LlmAccess
from app.jobs.handlers import Job
from app.jobs.pool import CallLost
from app.llm.client import new_client
from app.llm.crew import Crew
from app.llm.failures import LlmNotConfigured
from app.llm.retry import Patience
from app.llm.types import ModelRequest, request_key
from app.metrics.engine import CHUNK_SIZE
from app.metrics.lost_calls import failure_of_loss
from app.metrics.registry import provider_for
from app.metrics.remote import Answered, Judged, Requests, is_remote, judged, requests_about
from app.metrics.types import (
    Failed,
    FailureKind,
    Measurement,
    MetricRef,
    Missing,
    TraceMeasurements,
)
from app.runs.completion_fetcher import Answers, Checkpoint, Fetching
from app.runs.llm_cache import evict_answers, get_cached_answers
from app.runs.scoring import MOST_LOSSES, score_traces
from app.traces.types import Trace

Item = TypeVar("Item")
Result = TypeVar("Result")

TRACES_AT_ONCE: Final = 256

PATIENCE: Patience = Patience()


def measure_traces(
    traces: Sequence[Trace],
    refs: tuple[MetricRef, ...],
    *,
    job: Job,
    run_seq: int,
    checkpoint: Checkpoint,
    kept_for: str = "",
) -> list[TraceMeasurements]:
    """Every metric of every trace of a shard, in order: first those that are computed, then those
    that ask a model. `checkpoint` raises when there is nothing to wait for any more; `kept_for` names
    whom answers are kept for, where they are not for everybody.
    """
    remote = tuple(ref for ref in refs if is_remote(ref))
    local = tuple(ref for ref in refs if ref not in remote)
    computed = score_traces(traces, local, job, checkpoint)
    if not remote:
        return computed
    asked = ask_traces(
        traces, remote, job=job, run_seq=run_seq, checkpoint=checkpoint, kept_for=kept_for
    )
    return [_woven(refs, local, *rows) for rows in zip(computed, asked, strict=True)]


def ask_traces(
    traces: Sequence[Trace],
    refs: tuple[MetricRef, ...],
    *,
    job: Job,
    run_seq: int,
    checkpoint: Checkpoint,
    kept_for: str = "",
) -> list[TraceMeasurements]:
    """The values of metrics that ask a model, one row a trace.

    Raises: what `app.llm.failures` lists, when no request could succeed.
    """
    res, stop = job.resources, CancelToken()
    access = _configured(res.llm)
    rows: list[TraceMeasurements] = []
    client = new_client(access, policy=res.outbound, pause=stop.pause, patience=PATIENCE)
    with Crew(client.ask, stop, close=client.close) as crew:
        asking = _Asking(
            job=job,
            checkpoint=checkpoint,
            endpoint=access.base_url + kept_for,
            fetching=Fetching(job, run_seq, access.base_url + kept_for, crew),
        )
        for start in range(0, len(traces), TRACES_AT_ONCE):
            rows += asking.rows(traces[start : start + TRACES_AT_ONCE], refs)
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """The asking about one shard; knows which metrics were lost too often to be tried again."""

    job: Job
    checkpoint: Checkpoint
    endpoint: str
    fetching: Fetching
    losses: Counter[MetricRef] = field(default_factory=Counter)

    def rows(self, traces: Sequence[Trace], refs: Sequence[MetricRef]) -> list[TraceMeasurements]:
        """One row a trace, in the order of the metrics."""
        asked = [self._in_child(requests_about, ref, traces) for ref in refs]
        answers = self._answers(
            request
            for column in asked
            for requests in column
            if isinstance(requests, list)
            for request in requests
        )
        columns = [
            self._judged(ref, traces, column, answers)
            for ref, column in zip(refs, asked, strict=True)
        ]
        names = [provider_for(ref).spec.key for ref in refs]
        return [
            _row(trace, dict(zip(names, row, strict=True)))
            for trace, row in zip(traces, zip(*columns, strict=True), strict=True)
        ]

    def _answers(self, requests: Iterable[ModelRequest]) -> Answers:
        """The answers by the keys of their requests: those that are kept, and the others fetched."""
        wanted = {self._key(request): request for request in requests}
        with self.job.resources.db.read() as session:
            known = get_cached_answers(session, list(wanted))
        missing = [request for key, request in wanted.items() if key not in known]
        return {**known, **self.fetching.fetch(missing, self.checkpoint)}

    def _judged(
        self,
        ref: MetricRef,
        traces: Sequence[Trace],
        asked: Sequence[Requests | Measurement],
        answers: Answers,
    ) -> list[Judged]:
        """What one metric says about each trace."""
        found: dict[int, Judged] = {}
        readable: dict[int, Answered] = {}
        for place, requests in enumerate(asked):
            known = self._answered(traces[place], requests, answers)
            if isinstance(known, Answered):
                readable[place] = known
            else:
                found[place] = Judged(known)
        read = self._in_child(judged, ref, list(readable.values()))
        for place, one in zip(readable, read, strict=True):
            found[place] = Judged(one) if isinstance(one, Failed) else one
        self._forget(asked[place] for place in readable if _is_judge_error(found[place]))
        return [found[place] for place in range(len(traces))]

    def _answered(
        self, trace: Trace, requests: Requests | Measurement, answers: Answers
    ) -> Answered | Measurement:
        """The trace with its answers, unless it is known without reading what it is worth."""
        if not isinstance(requests, list):
            return requests
        theirs = [answers[self._key(request)] for request in requests]
        lost = next((one for one in theirs if isinstance(one, Failed)), None)
        return lost or Answered(trace, tuple(one for one in theirs if not isinstance(one, Failed)))

    def _forget(self, useless: Iterable[Requests | Measurement]) -> None:
        """Let a later run ask again where the answers were of no use."""
        keys = {
            self._key(request)
            for requests in useless
            if isinstance(requests, list)
            for request in requests
        }
        if keys:
            with self.job.resources.db.begin() as session:
                evict_answers(session, sorted(keys))

    def _in_child(
        self,
        function: Callable[[MetricRef, Sequence[Item]], list[Result]],
        ref: MetricRef,
        items: Sequence[Item],
    ) -> list[Result | Failed]:
        """What a function of the provider makes of each item; one that hangs or kills its process
        costs that item only, and after `MOST_LOSSES` of them the others of the shard.
        """
        found: list[Result | Failed] = []
        for start in range(0, len(items), CHUNK_SIZE):
            chunk = self._chunk(function, ref, items[start : start + CHUNK_SIZE])
            found += chunk
        return found

    def _chunk(
        self,
        function: Callable[[MetricRef, Sequence[Item]], list[Result]],
        ref: MetricRef,
        items: Sequence[Item],
    ) -> Sequence[Result | Failed]:
        if self.losses[ref] >= MOST_LOSSES:
            why = f"not tried: it was lost on {MOST_LOSSES} traces before"
            return [Failed(FailureKind.DIED, why)] * len(items)
        self.checkpoint()
        try:
            return self.job.pool.run(function, ref, items, timeout_s=self.job.call_timeout_s)
        except CallLost as lost:
            self.job.checkpoint()
            if len(items) > 1:
                return [one for item in items for one in self._chunk(function, ref, [item])]
            self.losses[ref] += 1
            return [failure_of_loss(lost)]

    def _key(self, request: ModelRequest) -> bytes:
        return request_key(self.endpoint, request)


def _is_judge_error(one: Judged) -> bool:
    found = one.measurement
    return isinstance(found, Failed) and found.kind is FailureKind.JUDGE_ERROR


def _row(trace: Trace, row: Mapping[str, Judged]) -> TraceMeasurements:
    found = {name: one.measurement for name, one in row.items()}
    missing: dict[str, Missing] = {
        name: one for name, one in found.items() if not isinstance(one, float)
    }
    return TraceMeasurements(
        trace_id=trace.trace_id,
        values=tuple(one if isinstance(one, float) else None for one in found.values()),
        missing=missing,
        reasons={name: one.reason for name, one in row.items() if one.reason} or None,
    )


def _woven(
    refs: Sequence[MetricRef],
    local: Sequence[MetricRef],
    computed: TraceMeasurements,
    asked: TraceMeasurements,
) -> TraceMeasurements:
    """One row of two, with every metric in its place."""
    here, there = iter(computed.values), iter(asked.values)
    return asked._replace(
        values=tuple(next(here if ref in local else there) for ref in refs),
        missing={**computed.missing, **asked.missing},
    )


def _configured(access: LlmAccess | None) -> LlmAccess:
    if access is None:
        raise LlmNotConfigured(
            "This worker knows no server of models; set MOSAICO_LLM_BASE_URL for every worker."
        )
    return access
