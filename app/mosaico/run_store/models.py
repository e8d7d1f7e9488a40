"""Tables of runs and their results."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    TIMESTAMP,
    BigInteger,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    false,
    func,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION, JSONB
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import Text

from mosaico.core.db import Base, ModelJson
from mosaico.kpis.judge_types import PeopleAgreement
from mosaico.kpis.series_types import RunsEvidence, SeriesState
from mosaico.kpis.verdict_types import RunVerdict, ValueVerdict
from mosaico.metrics.types import MetricNote
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.recorded_attributes import RunRecord
from mosaico.run_store.write_back_state import WriteBackState
from mosaico.traces.production import TraceWindow

_SERIES = ("benchmark_id", "agent_id")
# Valid runs whose data no earlier valid run had. Without parameters, so that the planner finds the index.
NEW_DATA = "has_new_data"
_POSITION = text("COALESCE(source_seq, seq)")
# Orders of the list of runs, each with an index. As SQL text in the spelling of PostgreSQL: an index serves
# the same expression only, without parameters in it.
# Not measured enough is a verdict of its own for a reader.
VERDICT_KEY = literal_column(
    "COALESCE(NULLIF(validity, 'VALID'::text), verdict ->> 'verdict'::text, ''::text)",
    Text(),
)
COMPLETED_KEY = literal_column(
    "COALESCE(completed_at, '1970-01-01 00:00:00+00'::timestamp with time zone)",
    TIMESTAMP(timezone=True),
)
TRACES_KEY = literal_column("COALESCE(traces_total, '0'::bigint)", BigInteger())


class BenchmarkRun(Base):
    """One execution of a benchmark against an agent.

    `schedule_id` is the schedule that started it; it stays when the schedule is deleted.
    `seq` orders runs and is their short key in large tables. `trace_window` is the range of production
    traces that it reads, if it reads any. `plan` is frozen when the run starts;
    `metric_keys` is the order of `trace_results.values`. `fencing_token` rises each time a step is
    acquired: a worker that lost its lease carries an old token and cannot write. `rescore_of` is the
    run whose traces are scored again. `source_key` identifies the source run that was read, and
    `source_seq` is the place of the run, see `POSITION`: both are known when the traces
    are collected. `data_digest` identifies its data, see `mosaico.runs.run_data`; `same_data_as` is the first valid
    run with them, and a valid run without such a run `has_new_data`. One that ended after a run with a later
    place `is_late`. `source_run_id` and `source_run_at` are its ID and start, if the source has runs of
    its own, and `source_warning` what is uncertain about it; `dataset_name` and `dataset_version` are the items that it
    tests, where those live here; `waiting_for` is what it waits for while its traces are collected; `same_source_as` is that first run, unless it is
    this one. `metric_warning` names metrics that cannot read many of the expected texts. `baseline_hold` is the reason why no later run is compared with this run; the
    acceptance of the run ends it. `write_back` is the state of writing scores to the source.
    """

    __tablename__ = "benchmark_runs"
    __table_args__ = (
        Index("ix_benchmark_runs_benchmark_id_seq", "benchmark_id", "seq"),
        Index("ix_benchmark_runs_agent_id_seq", "agent_id", "seq"),
        # The runs of an agent on a benchmark: the last one, and baselines.
        Index("ix_benchmark_runs_benchmark_id_agent_id_seq", "benchmark_id", "agent_id", "seq"),
        Index("ix_benchmark_runs_status_seq", "status", "seq"),
        Index("ix_benchmark_runs_created_at_seq", "created_at", "seq"),
        # The daily summary counts by these columns without reading the wide rows.
        Index(
            "ix_benchmark_runs_status_created_at",
            "status",
            "created_at",
            postgresql_include=["validity"],
        ),
        Index("ix_benchmark_runs_verdict_seq", VERDICT_KEY, "seq"),
        Index("ix_benchmark_runs_completed_at_seq", COMPLETED_KEY, "seq"),
        Index("ix_benchmark_runs_traces_total_seq", TRACES_KEY, "seq"),
        Index("ix_benchmark_runs_source_seq", "source_seq"),
        Index("ix_benchmark_runs_source_key", *_SERIES, "source_key", "source_seq", "seq"),
        Index(
            "ix_benchmark_runs_held",
            "source_seq",
            postgresql_where=text("baseline_hold IS NOT NULL"),
        ),
        # The earlier runs of a series, see `mosaico.comparison.baselines`: with its fingerprint or any one.
        Index("ix_benchmark_runs_series", *_SERIES, "fingerprint", _POSITION, "seq"),
        Index("ix_benchmark_runs_position", *_SERIES, _POSITION, "seq"),
        Index(
            "ix_benchmark_runs_accepted",
            *_SERIES,
            "fingerprint",
            _POSITION,
            postgresql_where=text("accepted_at IS NOT NULL"),
        ),
        # When each agent last had new data.
        Index(
            "ix_benchmark_runs_new_data",
            *_SERIES,
            "completed_at",
            postgresql_where=text(NEW_DATA),
        ),
        Index("ix_benchmark_runs_data_digest", *_SERIES, "data_digest", "seq"),
        Index(
            "ix_benchmark_runs_schedule_id_seq",
            "schedule_id",
            "seq",
            postgresql_where=text("schedule_id IS NOT NULL"),
        ),
        Index(
            "ix_benchmark_runs_unpurged",
            "benchmark_id",
            "completed_at",
            postgresql_where=text("purged_at IS NULL"),
        ),
        Index(
            "ix_benchmark_runs_restorable",
            "seq",
            postgresql_where=text("purged_at IS NOT NULL AND collection_id IS NOT NULL"),
        ),
        # Partial: most runs have none of these. Without statistics, an index of all rows looks
        # selective for IS NULL, and the planner reads a million rows through it.
        *(
            Index(f"ix_benchmark_runs_{name}", name, postgresql_where=text(f"{name} IS NOT NULL"))
            for name in ("retry_of", "rescore_of", "same_source_as", "same_data_as")
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(Identity(always=True), unique=True)
    benchmark_id: Mapped[str] = mapped_column(ForeignKey("benchmarks.id", ondelete="RESTRICT"))
    agent_id: Mapped[str] = mapped_column(ForeignKey("agents.id", ondelete="RESTRICT"))
    status: Mapped[str]
    triggered_by: Mapped[str]
    trigger_event_id: Mapped[str | None]
    schedule_id: Mapped[str | None]
    run_name: Mapped[str | None]
    trace_window: Mapped[TraceWindow | None] = mapped_column(ModelJson(TraceWindow))
    retry_count: Mapped[int] = mapped_column(Integer, default=0)
    retry_of: Mapped[str | None] = mapped_column(
        ForeignKey("benchmark_runs.id", ondelete="SET NULL")
    )
    rescore_of: Mapped[str | None] = mapped_column(
        ForeignKey("benchmark_runs.id", ondelete="SET NULL")
    )
    collection_id: Mapped[int | None] = mapped_column(
        ForeignKey("collections.id", ondelete="RESTRICT"), index=True
    )
    source_key: Mapped[str | None]
    source_seq: Mapped[int | None]
    source_run_id: Mapped[str | None]
    source_run_at: Mapped[datetime | None]
    source_warning: Mapped[str | None]
    dataset_name: Mapped[str | None]
    dataset_version: Mapped[int | None]
    # Without a foreign key: a schedule may evaluate one source run thousands of times, and one statement
    # would change all of them when the first one is deleted. `runs.end_links` does so in batches.
    same_source_as: Mapped[str | None]
    data_digest: Mapped[str | None]
    # As `same_source_as`.
    same_data_as: Mapped[str | None]
    has_new_data: Mapped[bool] = mapped_column(default=False, server_default=false())
    is_late: Mapped[bool] = mapped_column(default=False, server_default=false())
    plan: Mapped[RunPlan | None] = mapped_column(ModelJson(RunPlan, complete=True))
    metric_keys: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    fencing_token: Mapped[int] = mapped_column(default=0)
    shards_total: Mapped[int | None] = mapped_column(Integer)
    shards_done: Mapped[int] = mapped_column(Integer, default=0)
    traces_total: Mapped[int | None]
    traces_collected: Mapped[int] = mapped_column(default=0)
    traces_processed: Mapped[int] = mapped_column(default=0)
    metrics_computed: Mapped[int] = mapped_column(default=0)
    metrics_reused: Mapped[int] = mapped_column(server_default="0")
    error_code: Mapped[str | None]
    error_message: Mapped[str | None]
    validity: Mapped[str | None]
    validity_reasons: Mapped[list[Any] | None]
    coverage: Mapped[float | None]
    error_share: Mapped[float | None]
    metric_warning: Mapped[str | None]
    waiting_for: Mapped[str | None]
    fingerprint: Mapped[str | None]
    verdict: Mapped[RunVerdict | None] = mapped_column(ModelJson(RunVerdict))
    baseline_hold: Mapped[str | None]
    accepted_at: Mapped[datetime | None]
    accepted_by: Mapped[str | None]
    acceptance_note: Mapped[str | None]
    write_back: Mapped[WriteBackState | None] = mapped_column(ModelJson(WriteBackState))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]
    purged_at: Mapped[datetime | None]
    redacted_texts: Mapped[int] = mapped_column(default=0, server_default="0")
    texts_removed_at: Mapped[datetime | None]

    @property
    def begun_plan(self) -> RunPlan:
        """The plan of a run that has begun."""
        assert self.plan is not None, f"the run {self.id} has not begun"
        return self.plan

    @property
    def night(self) -> int:
        """The place of the run, see `POSITION`."""
        return self.seq if self.source_seq is None else self.source_seq


# The place of a run in the history of its agent, the night that it is for. Runs are ordered by their start. A run
# over a source run that was evaluated before takes the place of the first run over it, a rescored run that of its
# origin, and a retry that of the attempt that failed: none of them is a newer result of the agent.
POSITION = func.coalesce(BenchmarkRun.source_seq, BenchmarkRun.seq)


class BenchmarkBaseline(Base):
    """The pinned baseline run of an agent and a benchmark."""

    __tablename__ = "benchmark_baselines"

    benchmark_id: Mapped[str] = mapped_column(
        ForeignKey("benchmarks.id", ondelete="CASCADE"), primary_key=True
    )
    agent_id: Mapped[str] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    run_id: Mapped[str] = mapped_column(
        ForeignKey("benchmark_runs.id", ondelete="RESTRICT"), index=True
    )
    pinned_at: Mapped[datetime]


class RunShard(Base):
    """A range of a collection that one job scores: positions `first` to `last`, both included.

    `summaries` holds, by metric, the part of this shard in a value of the whole run that is not a
    mean over traces.
    """

    __tablename__ = "run_shards"

    run_seq: Mapped[int] = mapped_column(
        ForeignKey("benchmark_runs.seq", ondelete="CASCADE"), primary_key=True
    )
    shard: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    first: Mapped[int] = mapped_column(Integer)
    last: Mapped[int] = mapped_column(Integer)
    fencing_token: Mapped[int] = mapped_column(Integer, default=0)
    done_at: Mapped[datetime | None]
    summaries: Mapped[Any] = mapped_column(JSONB(none_as_null=True), nullable=True)


class TraceResult(Base):
    """The metric values of one trace, in the order of the run's `metric_keys`; NULL is missing.

    `notes` holds why a value is missing: `{"BLEU": {"skipped": "NO_OUTPUT"}}`, or the reason that a
    judge gave: `{"LLM_JUDGE": {"reason": "It names another city."}}`. There is no foreign key: it
    would be checked for each row and double the cost of writing a shard. `drop_results` deletes the
    rows of a deleted run.
    """

    __tablename__ = "trace_results"

    run_seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    values: Mapped[list[float | None]] = mapped_column(ARRAY(DOUBLE_PRECISION))
    notes: Mapped[dict[str, MetricNote] | None] = mapped_column(JSONB(none_as_null=True))


class RunMetricAggregate(Base):
    """The aggregate of one metric over a run; see `mosaico.metrics.aggregate`."""

    __tablename__ = "run_metrics"

    run_seq: Mapped[int] = mapped_column(
        ForeignKey("benchmark_runs.seq", ondelete="CASCADE"), primary_key=True
    )
    metric: Mapped[str] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(SmallInteger)
    version: Mapped[str]
    n: Mapped[int]
    expected: Mapped[int]
    mean: Mapped[float | None]
    std: Mapped[float | None]
    min: Mapped[float | None]
    max: Mapped[float | None]
    p50: Mapped[float | None]
    p95: Mapped[float | None]
    p99: Mapped[float | None]
    sum: Mapped[float | None]
    coverage: Mapped[float | None]
    interval_low: Mapped[float | None]
    interval_high: Mapped[float | None]
    missing: Mapped[dict[str, Any]]
    verdict: Mapped[ValueVerdict | None] = mapped_column(ModelJson(ValueVerdict))
    over_runs: Mapped[RunsEvidence | None] = mapped_column(ModelJson(RunsEvidence))
    # p1 to p99; none in rows of earlier versions.
    percentiles: Mapped[list[float] | None] = mapped_column(ARRAY(DOUBLE_PRECISION))
    # [trials, passed, items]; none where a value is not 0 or 1, and in rows of earlier versions.
    passes: Mapped[list[list[int]] | None] = mapped_column(JSONB(none_as_null=True))
    # Of a judge, where the benchmark asks for it.
    agreement: Mapped[PeopleAgreement | None] = mapped_column(ModelJson(PeopleAgreement))


class RunAttributes(Base):
    """What the traces of a run say of the agent, and what changed since its baseline. It outlives the purge of the traces."""

    __tablename__ = "run_attributes"

    run_seq: Mapped[int] = mapped_column(
        ForeignKey("benchmark_runs.seq", ondelete="CASCADE"), primary_key=True
    )
    record: Mapped[RunRecord] = mapped_column(ModelJson(RunRecord))


class RunItems(Base):
    """The items of a valid run, as arrays of little-endian numbers; see `mosaico.run_store.run_series`.

    They outlive the purge of the traces: an open incident is judged by the runs before it.
    """

    __tablename__ = "run_items"

    run_seq: Mapped[int] = mapped_column(
        ForeignKey("benchmark_runs.seq", ondelete="CASCADE"), primary_key=True
    )
    keys: Mapped[bytes] = mapped_column(LargeBinary)
    traces: Mapped[bytes] = mapped_column(LargeBinary)
    clusters: Mapped[bytes | None] = mapped_column(LargeBinary)


class RunSeries(Base):
    """One KPI or metric of a valid run as a point of its series, and the state after it.

    `level` is its value on `scale` (the logarithm on RATIO). `item_values` has a 4-byte float for
    each item of the run, NULL for a value that is not a mean over items. `assumed_sd` is the assumed standard deviation
    of whole runs on `scale`, NULL where it follows from the scale.
    """

    __tablename__ = "run_series"

    run_seq: Mapped[int] = mapped_column(
        ForeignKey("benchmark_runs.seq", ondelete="CASCADE"), primary_key=True
    )
    series: Mapped[str] = mapped_column(primary_key=True)
    scale: Mapped[str]
    level: Mapped[float]
    item_values: Mapped[bytes | None] = mapped_column(LargeBinary)
    assumed_sd: Mapped[float | None]
    state: Mapped[SeriesState | None] = mapped_column(ModelJson(SeriesState))


class RunEvaluation(Base):
    """What one alert rule made of a run; see `mosaico.alerts.evaluation.judging`.

    `state` is the state of the rule after the run, `outcome` the result of its condition, if the run was judged by
    it, and `same_data_as` the run whose data it repeats. The rule may be edited or deleted since.
    """

    __tablename__ = "run_evaluations"

    run_seq: Mapped[int] = mapped_column(
        ForeignKey("benchmark_runs.seq", ondelete="CASCADE"), primary_key=True
    )
    rule_id: Mapped[str] = mapped_column(primary_key=True)
    rule_name: Mapped[str]
    rule_revision: Mapped[int]
    result: Mapped[str]
    outcome: Mapped[str | None]
    state: Mapped[str]
    value: Mapped[float | None]
    baseline: Mapped[float | None]
    explanation: Mapped[str]
    same_data_as: Mapped[str | None]


class RunLlmUsage(Base):
    """Usage of one model by the metrics of a run; the agent's usage is not included.

    `cost_usd` is NULL as soon as the cost of one request is unknown.
    """

    __tablename__ = "run_llm_usage"

    run_seq: Mapped[int] = mapped_column(
        ForeignKey("benchmark_runs.seq", ondelete="CASCADE"), primary_key=True
    )
    model: Mapped[str] = mapped_column(primary_key=True)
    requests: Mapped[int]
    input_tokens: Mapped[int]
    output_tokens: Mapped[int]
    cost_usd: Mapped[float | None]


class LlmCacheEntry(Base):
    """LLM cache: an answer of a model, a text or a vector of 4-byte floats. `key` is the digest of server and request."""

    __tablename__ = "llm_cache"

    key: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    content: Mapped[str | None]
    vector: Mapped[bytes | None] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(index=True)
