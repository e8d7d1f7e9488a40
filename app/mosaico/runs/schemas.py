"""Request and response bodies of benchmark runs."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from mosaico.alerts.rules import AlertOutcome, AlertStatus, RuleOutcome
from mosaico.core.schemas import Identifier, ShortText, StoredText, WireModel
from mosaico.harness.transcript import Transcript
from mosaico.kpis.judge_types import PeopleAgreement
from mosaico.kpis.series_types import RunsEvidence
from mosaico.kpis.verdict_types import RunVerdict, ValueVerdict
from mosaico.metrics.types import MetricFailureKind, MetricSkipReason
from mosaico.run_store.rules import BaselineHold, RunStatus, TriggerType, Validity
from mosaico.run_store.write_back_state import WriteBackStatus
from mosaico.traces.error_groups import Fault
from mosaico.traces.production import TraceWindow
from mosaico.traces.types import TraceOutcome


class RunCreate(WireModel):
    """A run to start. Clients may send MANUAL only; the other triggers belong to the service."""

    benchmark_id: Identifier
    agent_id: Identifier
    trigger_type: Literal["MANUAL"] = "MANUAL"
    run_name: ShortText | None = Field(
        default=None,
        description="Run of the dataset to read; the default is that of the benchmark.",
    )
    trace_window: TraceWindow | None = Field(
        default=None,
        description="Range of production traces to read; the default is that of the benchmark.",
    )


class RunEstimate(WireModel):
    """A run to estimate; it is not started."""

    benchmark_id: Identifier
    agent_id: Identifier
    trace_window: TraceWindow | None = Field(
        default=None,
        description="Range of production traces to read; the default is that of the benchmark.",
    )


class EstimateView(WireModel):
    """The cost of a run that would start now: `traces` pass the filters, `selected` of them are
    read, with so many `requests` to the source by purpose; uploads are read without requests.
    `atMost`: the numbers are upper limits. Otherwise they are exact if all traces have as many
    spans and scores, and close to it if not.
    """

    trace_window: TraceWindow | None = Field(
        description="Range of production traces; null for a benchmark that reads an upload."
    )
    traces: int
    selected: int
    requests: dict[str, int]
    total_requests: int
    at_most: bool


class RunAcceptance(WireModel):
    """The acceptance of the level of a regressed run, with an optional reason."""

    note: ShortText | None = Field(
        default=None, description="Reason, for example the change that made the agent worse."
    )


class WriteBackView(WireModel):
    """The write-back of a run's scores to the source of its traces: PENDING, WRITING, WRITTEN,
    FAILED, or SUPERSEDED by a later run. `written` counts the scores that the source has accepted.
    """

    status: WriteBackStatus
    written: int
    error_code: str | None
    error: str | None


class RunView(WireModel):
    """A run. `tracesCollected` counts the traces read or made so far, `tracesProcessed` the measured
    ones. `metricsComputed` counts the values computed for it, `metricsReused` those taken from
    earlier runs over the same traces. `metricWarning` names the metrics that cannot read a tenth of the
    expected outputs or more, with what to use instead. `rescoreOf` is the run whose traces it scores again.
    `sourceRunId` and `sourceRunAt` are the
    ID and start of the run of the source that was read; `same_source_as` is the first run of the agent over the
    same run of the source, which is not compared with it. `sameDataAs` is the first valid run over the same data: the
    run adds nothing to histories, and the states of alert rules stay. `isLate`: a later night was judged before, so
    that the run is judged for its own night only. `verdict`
    compares it with its baseline, or has the `reason` why it was not compared. Runs with the same
    `fingerprint` are comparable. `baselineHold` is the reason why the run is not a baseline of later
    runs; `acceptedAt`, `acceptedBy` (the ID of an API key) and `acceptanceNote` say who accepted its
    level and so ended the hold. `results` is the URL of its measured traces, which are gone after
    `purgedAt`; aggregates and KPIs remain.
    """

    id: str
    benchmark_id: str
    agent_id: str
    status: RunStatus
    triggered_by: TriggerType
    trigger_event_id: str | None
    schedule_id: str | None
    run_name: str | None
    trace_window: TraceWindow | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    purged_at: datetime | None
    texts_removed_at: datetime | None
    redacted_texts: int
    error_code: str | None
    error_message: str | None
    traces_total: int | None
    traces_collected: int
    traces_processed: int
    metrics_computed: int
    metrics_reused: int
    retry_count: int
    retry_of: str | None
    rescore_of: str | None
    source_run_id: str | None
    source_run_at: datetime | None
    source_warning: str | None
    dataset_name: Annotated[
        str | None,
        Field(description="Dataset whose items the run tests; null where they live elsewhere."),
    ]
    dataset_version: Annotated[
        int | None, Field(description="Version of `datasetName` whose items the run tests.")
    ]
    waiting_for: str | None
    same_source_as: str | None
    same_data_as: str | None
    has_new_data: Annotated[
        bool, Field(description="Whether no earlier valid run of the agent had its data.")
    ]
    is_late: Annotated[
        bool, Field(description="Whether a later night was judged before the run ended.")
    ]
    validity: Validity | None
    validity_reasons: list[str] | None
    coverage: float | None
    error_share: float | None
    metric_warning: str | None
    fingerprint: str | None
    verdict: RunVerdict | None
    baseline_hold: BaselineHold | None
    accepted_at: datetime | None
    accepted_by: str | None
    accepted_by_name: StoredText | None = None
    acceptance_note: StoredText | None
    write_back: WriteBackView | None
    results: str


class EvaluationView(WireModel):
    """What an alert rule made of a completed valid run. `outcome` is that of its condition; null for a run that repeats
    another one, unless the condition needs no other run. `state` is that of the rule after the run.
    """

    alert_config_id: str = Field(validation_alias="rule_id")
    name: str = Field(validation_alias="rule_name")
    rule_revision: Annotated[int, Field(description="Revision of the rule that judged the run.")]
    result: Annotated[RuleOutcome, Field(description="What the rule made of the run.")]
    outcome: AlertOutcome | None
    state: AlertStatus
    value: float | None
    baseline: float | None
    explanation: StoredText
    same_data_as: str | None


class MissingValueView(WireModel):
    """The reason for a missing value: the metric was skipped or failed."""

    skipped: MetricSkipReason | None = None
    failed: MetricFailureKind | None = None
    detail: str | None = None


class ToolCallView(WireModel):
    """A tool call of the agent; `ok` is null when the source does not report the outcome."""

    name: StoredText
    arguments: dict[str, Any] | None
    ok: bool | None
    latency_ms: float | None


class TraceResultView(WireModel):
    """One trace; `values` is empty while it is not measured. A missing value is null, with its cause in
    `missing`; `reasons` holds the reasons that judges gave for their scores. `expectedAny` are several right answers,
    of which one is enough, `expectedAll` several that an answer must fit: metrics take the best or the worst value.
    Tokens, cost, latency, tool calls and turns are those of the agent; null when the source does not report them.
    """

    trace_id: str
    item_id: str
    trial: int
    outcome: TraceOutcome
    is_right: Annotated[
        bool | None,
        Field(description="Whether the answer is right; null where nothing says so."),
    ]
    input: StoredText | None
    expected_output: StoredText | None
    expected_any: list[StoredText]
    expected_all: list[StoredText]
    output: StoredText | None
    error: StoredText | None
    tags: list[StoredText]
    attributes: dict[str, StoredText]
    url: StoredText | None
    values: dict[str, float | None]
    missing: dict[str, MissingValueView]
    reasons: dict[str, StoredText]
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float | None
    turns: int | None
    tool_calls: list[ToolCallView] | None


class TraceView(TraceResultView):
    """One trace of a run. `values` is empty while the trace is not measured.

    `transcript` shows the work of the agent step by step, with secrets masked; null when
    the source has none.
    """

    scores: dict[str, float]
    transcript: Transcript | None


class ItemNightView(WireModel):
    """An item in one run: the values of its trials by the metric that decides. `isRight` is about their mean; null
    where nothing says so. A run without the item has no `traces`.
    """

    run_id: str
    agent_id: str
    created_at: datetime
    trials: Annotated[
        list[float | None], Field(description="Values of the metric that decides, trial by trial.")
    ]
    value: float | None
    is_right: Annotated[bool | None, Field(description="Whether the answer is right.")]
    traces: int


class RunErrorView(WireModel):
    """The errors that one rule classed: whose fault they are, how many, and the first of them with its trace."""

    rule: StoredText
    outcome: TraceOutcome
    fault: Fault
    count: int
    example: StoredText
    trace_id: str


class LlmUsageView(WireModel):
    """The usage of one model by a run. `costUsd` is null if the server did not report every cost;
    cached answers took no request.
    """

    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


class MetricAggregateView(WireModel):
    """The aggregate of a metric over a run. `std` is the sample standard deviation; `missing` counts
    missing values by reason. `verdict.repeats` has pass@k statistics when a pass-or-fail metric was
    measured in several trials per item.
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
    over_runs: RunsEvidence | None
    agreement: Annotated[
        PeopleAgreement | None,
        Field(
            description="How far a judge agrees with people; null where the benchmark requires nothing of it."
        ),
    ]
