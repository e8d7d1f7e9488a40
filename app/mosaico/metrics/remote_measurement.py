"""Measures traces by metrics that need a model.

    requests (of the provider) → stored answers → model server → values (of the provider)

Answers are stored when they arrive, so that after a kill only the requests in flight are sent again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from mosaico.core.extras import require_extra
from mosaico.core.llm_server import LlmServer
from mosaico.llm.errors import LlmNotConfigured
from mosaico.llm.types import ModelKind, ModelRequest, request_key
from mosaico.metrics.completion_fetcher import (
    AnswersByKey,
    AnswerStore,
    Checkpoint,
    CompletionFetcher,
)
from mosaico.metrics.model_metrics import (
    AnsweredTrace,
    JudgedTrace,
    TraceRequests,
    judge_traces,
    model_kind,
    requests_for_traces,
)
from mosaico.metrics.registry import provider_for
from mosaico.metrics.types import (
    Measurement,
    MetricFailed,
    MetricFailureKind,
    MetricRef,
    Missing,
    TraceMeasurements,
)
from mosaico.traces.types import Trace

Input = TypeVar("Input")
Output = TypeVar("Output")

# Bounds the requests and answers that are in memory at a time.
TRACE_BATCH_SIZE: Final = 256


class ProviderCaller(Protocol):
    """Calls a function of a provider: in this process, or in another one, where outputs can be lost."""

    def __call__(
        self,
        function: Callable[[MetricRef, Sequence[Input]], list[Output]],
        ref: MetricRef,
        inputs: Sequence[Input],
    ) -> Sequence[Output | MetricFailed]: ...


def with_model(ref: MetricRef, llm: LlmServer | None) -> MetricRef:
    """A remote metric with its model as an option: a later change of the default keeps the values.

    Raises: `LlmNotConfigured` without a server or a model, `MissingPackages`.
    """
    require_extra("models", "metrics that call a model")
    if llm is None:
        raise LlmNotConfigured(
            f"{ref.key} needs a model, and no model server is configured; set MOSAICO_LLM_BASE_URL"
            " (of the workers, for runs of a service), or leave the metric out."
        )
    options = dict(ref.options)
    if options.get("model"):
        return ref
    is_chat = model_kind(ref) is ModelKind.CHAT
    model = llm.model if is_chat else llm.embeddings_model
    if model is None:
        variable = "MOSAICO_LLM_MODEL" if is_chat else "MOSAICO_EMBEDDINGS_MODEL"
        raise LlmNotConfigured(f"{ref.key} has no model; set its option model, or {variable}.")
    return MetricRef.of(ref.key, {**options, "model": model})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteMeasurement:
    """Measures traces with the answers of one server.

    `cache_scope` is the one of `CompletionFetcher`; `checkpoint` raises when the values are no longer
    needed.
    """

    cache_scope: str
    store: AnswerStore
    fetcher: CompletionFetcher
    call_provider: ProviderCaller
    checkpoint: Checkpoint

    def rows(self, traces: Sequence[Trace], refs: Sequence[MetricRef]) -> list[TraceMeasurements]:
        """One row per trace, in the order of the metrics.

        Raises: the errors of `mosaico.llm.errors`, when no request can succeed.
        """
        rows: list[TraceMeasurements] = []
        for start in range(0, len(traces), TRACE_BATCH_SIZE):
            rows += self._batch_rows(traces[start : start + TRACE_BATCH_SIZE], refs)
        return rows

    def _batch_rows(
        self, traces: Sequence[Trace], refs: Sequence[MetricRef]
    ) -> Iterator[TraceMeasurements]:
        request_columns = [self.call_provider(requests_for_traces, ref, traces) for ref in refs]
        answers = self._answers(
            request
            for column in request_columns
            for requests in column
            if isinstance(requests, list)
            for request in requests
        )
        columns = [
            self._judge_column(ref, traces, column, answers)
            for ref, column in zip(refs, request_columns, strict=True)
        ]
        names = [provider_for(ref).spec.key for ref in refs]
        return (
            _row(trace, dict(zip(names, row, strict=True)))
            for trace, row in zip(traces, zip(*columns, strict=True), strict=True)
        )

    def _answers(self, requests: Iterable[ModelRequest]) -> AnswersByKey:
        """The answers by request key, stored ones or those of the server."""
        # Equal requests of several traces or metrics are sent once.
        by_key = {self._key(request): request for request in requests}
        stored = self.store.get(list(by_key))
        missing = [request for key, request in by_key.items() if key not in stored]
        return {**stored, **self.fetcher.fetch(missing, self.checkpoint)}

    def _judge_column(
        self,
        ref: MetricRef,
        traces: Sequence[Trace],
        requests: Sequence[TraceRequests | Measurement],
        answers: AnswersByKey,
    ) -> list[JudgedTrace]:
        """The values of one metric, in the order of the traces."""
        judged: dict[int, JudgedTrace] = {}
        answered_traces: dict[int, AnsweredTrace] = {}
        for index, trace in enumerate(traces):
            match self._collect_answers(trace, requests[index], answers):
                case AnsweredTrace() as with_answers:
                    answered_traces[index] = with_answers
                case measurement:
                    judged[index] = JudgedTrace(measurement)
        verdicts = self.call_provider(judge_traces, ref, list(answered_traces.values()))
        for index, verdict in zip(answered_traces, verdicts, strict=True):
            judged[index] = JudgedTrace(verdict) if isinstance(verdict, MetricFailed) else verdict
        # Otherwise the same unusable answer would be read again later.
        self._evict(requests[index] for index in answered_traces if _is_judge_error(judged[index]))
        return [judged[index] for index in range(len(traces))]

    def _collect_answers(
        self, trace: Trace, requests: TraceRequests | Measurement, answers: AnswersByKey
    ) -> AnsweredTrace | Measurement:
        """The trace with its answers; its measurement when that is known without them."""
        if not isinstance(requests, list):
            return requests
        trace_answers = [answers[self._key(request)] for request in requests]
        # A trace with one failed request has no value: an average of the other answers would
        # measure something else.
        failure = next(
            (answer for answer in trace_answers if isinstance(answer, MetricFailed)), None
        )
        return failure or AnsweredTrace(
            trace, tuple(answer for answer in trace_answers if not isinstance(answer, MetricFailed))
        )

    def _evict(self, unusable: Iterable[TraceRequests | Measurement]) -> None:
        """Remove unusable stored answers, so that their requests are sent again next time."""
        keys = {
            self._key(request)
            for requests in unusable
            if isinstance(requests, list)
            for request in requests
        }
        if keys:
            self.store.evict(sorted(keys))

    def _key(self, request: ModelRequest) -> bytes:
        return request_key(self.cache_scope, request)


def merge_rows(
    refs: Sequence[MetricRef],
    local: Sequence[MetricRef],
    local_row: TraceMeasurements,
    remote_row: TraceMeasurements,
) -> TraceMeasurements:
    """One row with the values in the order of `refs`; `local` are the metrics of the first row."""
    local_values, remote_values = iter(local_row.values), iter(remote_row.values)
    return remote_row._replace(
        values=tuple(next(local_values if ref in local else remote_values) for ref in refs),
        missing={**local_row.missing, **remote_row.missing},
    )


def _is_judge_error(judged: JudgedTrace) -> bool:
    measurement = judged.measurement
    return (
        isinstance(measurement, MetricFailed) and measurement.kind is MetricFailureKind.JUDGE_ERROR
    )


def _row(trace: Trace, judged: Mapping[str, JudgedTrace]) -> TraceMeasurements:
    measurements = {name: verdict.measurement for name, verdict in judged.items()}
    missing: dict[str, Missing] = {
        name: measurement
        for name, measurement in measurements.items()
        if not isinstance(measurement, float)
    }
    return TraceMeasurements(
        trace_id=trace.trace_id,
        values=tuple(
            measurement if isinstance(measurement, float) else None
            for measurement in measurements.values()
        ),
        missing=missing,
        reasons={name: verdict.reason for name, verdict in judged.items() if verdict.reason}
        or None,
    )
