from datetime import datetime
from typing import Literal

from pydantic import Field

from app.core.schemas import Identifier, ShortText, StoredText, WireModel
from app.kpis.verdicts import RunVerdict, ValueVerdict


class RunCreate(WireModel):
    """What to run. A client may only say MANUAL: the other triggers are the service's own."""

    benchmark_id: Identifier
    agent_id: Identifier
    trigger_type: Literal["MANUAL"] = "MANUAL"
    run_name: ShortText | None = Field(
        default=None, description="Run of the dataset to read instead of the benchmark's own."
    )


class WriteBackView(WireModel):
    """How far the scores of a run were written where its traces came from: PENDING, WRITING,
    WRITTEN, FAILED, or SUPERSEDED by a later run. `written` counts the scores that were accepted there.
    """

    status: str
    written: int
    error_code: str | None
    error: str | None


class RunView(WireModel):
    """A run. `metrics_computed` values were computed for it, `metrics_reused` taken from earlier runs
    on the same traces; `rescoreOf` is the run whose traces it judges once more. `verdict` tells how it
    stands beside its baseline, or as `reason` why it was not compared; runs of one `fingerprint` are one
    history, whose numbers mean the same. `results` is the address of what was measured, trace by trace; after
    `purged_at` it is gone, while aggregates and KPIs stay.
    """

    id: str
    benchmark_id: str
    agent_id: str
    status: str
    triggered_by: str
    trigger_event_id: str | None
    run_name: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    purged_at: datetime | None
    error_code: str | None
    error_message: str | None
    traces_total: int | None
    traces_processed: int
    metrics_computed: int
    metrics_reused: int
    retry_count: int
    retry_of: str | None
    rescore_of: str | None
    validity: str | None
    validity_reasons: list[str] | None
    coverage: float | None
    error_share: float | None
    fingerprint: str | None
    verdict: RunVerdict | None
    write_back: WriteBackView | None
    results: str


class MissingValueView(WireModel):
    """Why a value is missing: the metric was skipped, or its provider failed."""

    skipped: str | None = None
    failed: str | None = None
    detail: str | None = None


class TraceResultView(WireModel):
    """One measured trace. A value is null when it is missing, and `missing` says why; `reasons` are
    those that models gave for their scores.
    """

    trace_id: str
    item_id: str
    trial: int
    outcome: str
    input: StoredText | None
    expected_output: StoredText | None
    output: StoredText | None
    error: StoredText | None
    tags: list[StoredText]
    url: StoredText | None
    values: dict[str, float | None]
    missing: dict[str, MissingValueView]
    reasons: dict[str, StoredText]


class LlmUsageView(WireModel):
    """What a run spent on one model. `costUsd` is null where the server did not tell every cost;
    answers that were kept from earlier took no request.
    """

    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


class MetricAggregateView(WireModel):
    """A metric over a run. `std` is the sample standard deviation; `missing` counts by reason.
    `verdict.repeats` has pass@k and its kin, where a pass or fail was tried several times an item.
    """

    metric: str
    version: str
    n: int
    expected: int
    coverage: float | None
    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    sum: float | None
    interval_low: float | None
    interval_high: float | None
    missing: dict[str, int]
    verdict: ValueVerdict | None
