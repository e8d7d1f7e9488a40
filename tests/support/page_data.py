"""A month of stored runs for the tests of the pages: three agents, three benchmarks, one bad night.

The rows are written directly, because a month of real runs takes minutes.
"""

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.benchmarks.config_types import MetricSelection, WriteBackConfig
from mosaico.benchmarks.models import Benchmark, KpiDefinition
from mosaico.kpis.models import KpiHistory
from mosaico.kpis.verdict_types import (
    BaselineRuns,
    BaselineSelection,
    ComparedItems,
    RunVerdict,
    ValueVerdict,
)
from mosaico.run_store.models import BenchmarkRun, RunAttributes, RunMetricAggregate, TraceResult
from mosaico.run_store.plan import RunPlan
from mosaico.schedules.models import ScheduleConfig, ScheduleFire
from mosaico.statistics.verdict_rules import Scale, Side, Verdict
from mosaico.traces.models import CollectedTrace, Collection, TraceTranscript
from tests.support.page_alerts import LOST_TRACES, write_alert
from tests.support.page_attributes import BROKEN, attributes_of_night, record_of_night
from tests.support.replays import write_or_replay

AGENTS = {"billing": "Billing bot", "sql": "SQL copilot", "triage": "Triage"}
BENCHMARKS = {
    "support": "Support, nightly",
    "warehouse": "SQL, nightly",
    "tickets": "Triage, nightly",
}
PAIRS = (
    ("billing", "support"), ("billing", "warehouse"), ("sql", "support"), ("sql", "warehouse"),
    ("sql", "tickets"), ("triage", "warehouse"), ("triage", "tickets"),
)  # fmt: skip
NIGHTS = 30
ITEMS, TRIALS = 58, 3
METRIC = "EXACT_MATCH"
# 200 characters, the longest name that the API accepts: markup, an override of the reading direction, an
# emoji, and one long word.
HOSTILE = "<script>alert(1)</script>\u202e gnp.exe \U0001f525 " + "W" * 163


def write_month(session: Session, *, nights: int = NIGHTS, now: datetime | None = None) -> None:
    """Runs of `nights` nights; in the last one Billing bot regressed on its first benchmark, Triage
    was not measured enough, and a run of SQL copilot is in progress.
    """
    now = now or datetime.now(UTC)
    # The names of runs have the dates of their nights.
    key = ("month", nights, time_of_night(now, 0).date())
    write_or_replay(session, key, now, partial(_write_month, session, nights, now))


def _write_month(session: Session, nights: int, now: datetime) -> None:
    write_names(session)
    # A seed for each pair: a new pair or another order leaves the values of the others as they are.
    deviations = {pair: random.Random(" ".join(pair)) for pair in PAIRS}
    # Night by night: runs that were created later have higher numbers.
    runs = [
        _night(*pair, back, nights, now, deviations[pair].gauss(0, 0.008))
        for back in range(nights - 1, -1, -1)
        for pair in PAIRS
    ]
    write_runs(session, runs)
    _write_run_in_progress(session, now)
    write_traces(session, "run-billing-support-0", broken=BROKEN)
    write_traces(session, "run-billing-support-1", broken=0)
    write_alert(session, now)


def write_names(
    session: Session,
    agents: Mapping[str, str] = AGENTS,
    benchmarks: Mapping[str, str] = BENCHMARKS,
) -> None:
    """Agents, benchmarks and the KPIs of each benchmark."""
    for id_, name in agents.items():
        session.add(Agent(id=id_, name=name))
    for id_, name in benchmarks.items():
        session.add(
            Benchmark(
                id=id_, metadata_={"name": name}, dataset_ref=id_, source="local",
                metrics=[MetricSelection(key=key) for key in (METRIC, "LATENCY_MS")], min_coverage=0.9, max_error_share=0.05, write_back=WriteBackConfig(),
            )
        )  # fmt: skip
        for kpi_id, kpi_name, gate, unit, direction in (
            (f"{id_}-pass", "pass rate", True, None, "HIGHER_IS_BETTER"),
            (f"{id_}-cost", "cost per task", False, "USD", "LOWER_IS_BETTER"),
        ):
            session.add(
                KpiDefinition(
                    id=kpi_id, revision=1, benchmark_id=id_, name=kpi_name, formula=METRIC, gate=gate,
                    direction=direction, unit=unit, threshold_min=0.8 if gate else None,
                )
            )  # fmt: skip
    session.flush()


class PageRun(NamedTuple):
    """A completed run with its KPIs and one metric."""

    run_id: str
    agent_id: str
    benchmark_id: str
    at: datetime
    value: float | None
    baseline: float = 0.86
    verdict: Verdict = Verdict.NO_EVIDENCE
    is_valid: bool = True
    baseline_id: str | None = None
    # How many nights ago it was, for the version of its agent; None: nothing is recorded of its traces.
    back: int | None = None


def _night(
    agent_id: str, benchmark_id: str, back: int, nights: int, now: datetime, deviation: float
) -> PageRun:
    is_last = back == 0
    # A level of its own for each agent: billing 0.895, sql 0.835, triage 0.88.
    level = 0.79 + 0.03 * len(agent_id) / 2
    value, verdict = level + deviation, Verdict.NO_EVIDENCE
    if is_last and (agent_id, benchmark_id) == ("billing", "support"):
        value, verdict = level - 0.15, Verdict.REGRESSED
    elif is_last and (agent_id, benchmark_id) == ("sql", "warehouse"):
        value, verdict = level + 0.06, Verdict.IMPROVED
    return PageRun(
        f"run-{agent_id}-{benchmark_id}-{back}", agent_id, benchmark_id,
        time_of_night(now, back), value=value, baseline=level, verdict=verdict,
        is_valid=not (is_last and (agent_id, benchmark_id) == ("triage", "tickets")),
        baseline_id=f"run-{agent_id}-{benchmark_id}-{back + 1}" if back < nights - 1 else None,
        back=back,
    )  # fmt: skip


def time_of_night(now: datetime, back: int) -> datetime:
    return now - timedelta(days=back, hours=2)


def write_run(session: Session, *fields: Any, **more: Any) -> BenchmarkRun:
    """Write one `PageRun`."""
    [run] = write_runs(session, [PageRun(*fields, **more)])
    return run


def write_runs(session: Session, page_runs: Sequence[PageRun]) -> list[BenchmarkRun]:
    """Write runs with increasing numbers, in a few statements: a month has hundreds."""
    runs = [_stored_run(*page_run) for page_run in page_runs]
    session.add_all(runs)
    session.flush()
    for run, page_run in zip(runs, page_runs, strict=True):
        run.source_seq = run.seq
        run.has_new_data = run.validity == "VALID" and run.status == "COMPLETED"
        session.add_all(_values_of(run, page_run))
    session.flush()
    return runs


def _stored_run(
    run_id: str,
    agent_id: str,
    benchmark_id: str,
    at: datetime,
    value: float | None,
    baseline: float,
    verdict: Verdict,
    is_valid: bool,
    baseline_id: str | None,
    back: int | None,
) -> BenchmarkRun:
    del value, baseline, back
    differences = ("agent revision 14 → 15",) if verdict is Verdict.REGRESSED else ()
    return BenchmarkRun(
        id=run_id, benchmark_id=benchmark_id, agent_id=agent_id, status="COMPLETED",
        triggered_by="SCHEDULED", run_name=f"night of {at:%Y-%m-%d}", created_at=at,
        started_at=at + timedelta(seconds=1), completed_at=at + timedelta(seconds=57),
        traces_total=ITEMS * TRIALS, traces_collected=ITEMS * TRIALS,
        traces_processed=ITEMS * TRIALS, metrics_computed=2 * ITEMS * TRIALS,
        validity="VALID" if is_valid else "INVALID", coverage=1.0 if is_valid else 0.69,
        error_share=0.0 if is_valid else 0.31, fingerprint="f", metric_keys=[METRIC, "LATENCY_MS"],
        validity_reasons=[] if is_valid else [LOST_TRACES],
        baseline_hold="REGRESSED" if verdict is Verdict.REGRESSED else None,
        verdict=_run_verdict(verdict, baseline_id, differences) if is_valid else None,
        plan=_plan(agent_id, benchmark_id),
    )  # fmt: skip


def _values_of(run: BenchmarkRun, page_run: PageRun) -> list[Any]:
    _, agent_id, benchmark_id, at, value, baseline, verdict, is_valid, baseline_id, back = page_run
    rows: list[Any] = []
    if back is not None:
        record = record_of_night(
            back, ITEMS, is_bad=verdict is Verdict.REGRESSED, baseline_id=baseline_id
        )
        rows.append(RunAttributes(run_seq=run.seq, record=record))
    for kpi_id, name, gate, kpi_value, kpi_verdict, scale in (
        (f"{benchmark_id}-pass", "pass rate", True, value, verdict, Scale.RATE),
        (f"{benchmark_id}-cost", "cost per task", False, 0.04, Verdict.INCONCLUSIVE, Scale.RATIO),
    ):
        rows.append(
            KpiHistory(
                run_seq=run.seq, run_id=run.id, kpi_id=kpi_id, kpi_revision=1, name=name,
                benchmark_id=benchmark_id, agent_id=agent_id, formula=METRIC, gate=gate,
                value=kpi_value if is_valid else None, validity=run.validity,
                undefined_reason=None if is_valid and kpi_value is not None else "too few traces have a value",
                unit=None if gate else "USD", direction="HIGHER_IS_BETTER" if gate else "LOWER_IS_BETTER",
                interval_low=kpi_value - 0.04 if gate and is_valid and kpi_value is not None else None,
                interval_high=kpi_value + 0.04 if gate and is_valid and kpi_value is not None else None,
                verdict=value_verdict(name, kpi_value, baseline if gate else 0.039, kpi_verdict, scale)
                if is_valid and kpi_value is not None else None,
                recorded_at=at + timedelta(seconds=57),
            )
        )  # fmt: skip
    rows.append(
        RunMetricAggregate(
            run_seq=run.seq, metric=METRIC, ordinal=0, version="1", n=ITEMS * TRIALS,
            expected=ITEMS * TRIALS, mean=value, coverage=1.0, missing={}, p50=1.0, p95=1.0,
            interval_low=None if value is None else value - 0.04,
            interval_high=None if value is None else value + 0.04,
        )
    )  # fmt: skip
    return rows


def value_verdict(
    name: str, value: float, baseline: float, verdict: Verdict, scale: Scale
) -> ValueVerdict:
    """A verdict with numbers that agree with each other."""
    effect = value - baseline if scale is Scale.RATE else value / baseline - 1
    # A fall of 0.15 stays outside ±0.08 and so REGRESSED; a change of 0.001 lies inside it.
    half = 0.08 if verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE} else 0.04
    return ValueVerdict(
        verdict=verdict, explanation=f"{name} changed from {baseline:.3f} to {value:.3f}.",
        baseline_value=baseline, value=value, effect=effect, low=effect - half, high=effect + half,
        low_adjusted=effect - half, high_adjusted=effect + half, p=0.002, p_adjusted=0.002,
        min_detectable_effect=0.1, min_effect=0.02, margin=0.05, scale=scale, side=Side.LOW,
        items=ITEMS, trials=float(TRIALS), gate=True,
    )  # fmt: skip


def _run_verdict(
    verdict: Verdict, baseline_id: str | None, differences: Sequence[str]
) -> RunVerdict:
    if baseline_id is None:
        return RunVerdict(
            reason="first run", explanation="First run: there is no earlier valid run."
        )
    words = {Verdict.REGRESSED: "regressed", Verdict.IMPROVED: "improved"}
    return RunVerdict(
        verdict=verdict,
        explanation=f"1 of 2 KPIs {words.get(verdict, 'shows no evidence of a change')}; 1 is"
        f" inconclusive. {ITEMS} items compared."
        + (f" Differences: {'; '.join(differences)}." if differences else ""),
        baseline=BaselineRuns(mode=BaselineSelection.PREVIOUS_VALID, run_ids=(baseline_id,)),
        items=ComparedItems(
            compared=ITEMS, only_baseline=0, only_candidate=0, revised=0, left_out=0
        ),
        counts={str(verdict): 1, "INCONCLUSIVE": 1},
        differences=tuple(differences),
    )


def _plan(agent_id: str, benchmark_id: str) -> RunPlan:
    metrics: list[dict[str, Any]] = [
        {"key": key, "options": {}, "version": "1", "column": key} for key in (METRIC, "LATENCY_MS")
    ]
    return RunPlan.model_validate(
        {
            "benchmark_id": benchmark_id, "benchmark_revision": 1, "agent_id": agent_id,
            "agent_revision": 1, "source": "local", "dataset_ref": benchmark_id, "run_name": None,
            "metrics": metrics, "kpis": [], "min_coverage": 0.9, "max_error_share": 0.05,
        }
    )  # fmt: skip


def _write_run_in_progress(session: Session, now: datetime) -> None:
    session.add(
        BenchmarkRun(
            id="run-in-progress", benchmark_id="warehouse", agent_id="sql", status="RUNNING",
            triggered_by="MANUAL", created_at=now - timedelta(minutes=4),
            started_at=now - timedelta(minutes=4), traces_total=584, traces_collected=584,
            traces_processed=362, metrics_computed=724,
        )
    )  # fmt: skip
    session.flush()


def write_traces(session: Session, run_id: str, *, broken: int, text: str = "refund") -> None:
    """The traces of a run; the first `broken` items fail in each trial."""
    run = session.query(BenchmarkRun).filter_by(id=run_id).one()
    collection = Collection(
        source="local", query={}, trace_count=ITEMS * TRIALS, completed_at=run.created_at
    )
    session.add(collection)
    session.flush()
    run.collection_id = collection.id
    for position in range(ITEMS * TRIALS):
        item, trial = divmod(position, TRIALS)
        fails = item < broken
        output = (
            "I cannot look up this refund: 500 Internal Server Error."
            if fails
            else f"The {text} of order {item} is 12 EUR."
        )
        session.add(
            CollectedTrace(
                collection_id=collection.id, position=position, trace_id=f"{run_id}/t-{position}",
                item_id=f"case-{item:03d}", trial=trial, outcome="scored",
                input=f"How much is the {text} of order {item}?",
                expected_output=f"The {text} of order {item} is 12 EUR.", output=output, tags=["category:refund"],
                attributes=attributes_of_night(int(run_id.rpartition("-")[2])),
                url=f"https://langfuse.example/trace/{position}", latency_ms=812.0 + position,
                input_tokens=900, output_tokens=40, cost_usd=0.0041, turns=2,
                tool_calls=[{"name": "refund.lookup", "arguments": {"order": item}, "ok": not fails, "latencyMs": 41.0}],
            )
        )  # fmt: skip
        session.add(
            TraceResult(
                run_seq=run.seq, position=position, values=[0.0 if fails else 1.0, 812.0 + position]
            )
        )
        if position < TRIALS:
            session.add(
                TraceTranscript(
                    collection_id=collection.id, position=position, transcript=_transcript(fails)
                )
            )
    session.flush()


def _transcript(fails: bool) -> dict[str, Any]:
    output = "500 Internal Server Error" if fails else '{"amount": 12, "currency": "EUR"}'
    return {
        "version": 1,
        "omittedSteps": 0,
        "gapAt": 0,
        "steps": [
            {"kind": "message", "role": "user", "text": "How much is the refund of order 0?"},
            {"kind": "message", "role": "assistant", "text": "I look it up.", "thinking": "The tool refund.lookup knows it."},
            {"kind": "toolCall", "tool": "refund.lookup", "arguments": {"order": 0}, "output": output,
             "isError": fails, "durationMs": 41.0},
            {"kind": "message", "role": "assistant", "text": "It is 12 EUR." if not fails else "I cannot look it up."},
        ],
    }  # fmt: skip


def write_schedule(session: Session, *, now: datetime | None = None) -> None:
    """A schedule of every night whose last 30 times were met, but for a late and a missed one."""
    now = now or datetime.now(UTC)
    session.add(
        ScheduleConfig(
            id="nightly", name="Support, every night", benchmark_id="support", agent_id="billing",
            cron_expression="0 30 2 * * *", timezone="Europe/Rome", dst_policy="SPRING", enabled=True,
            misfire_policy="FIRE_ONCE", catchup_window_seconds=86_400, concurrency_policy="FORBID",
            auto_disable_on_failure=True, max_consecutive_failures=3,
            next_run_at=now + timedelta(hours=20), last_run_at=now - timedelta(hours=4),
        )
    )  # fmt: skip
    for back in range(NIGHTS):
        due_at = now - timedelta(days=back, hours=4)
        is_missed, is_late = back == 5, back == 9
        session.add(
            ScheduleFire(
                schedule_id="nightly", due_at=due_at,
                fired_at=due_at + timedelta(minutes=4 if is_late else 0), triggered_by="SCHEDULED",
                status="SKIPPED" if is_missed else "STARTED", reason="MISSED" if is_missed else None,
                run_id=None if is_missed else f"run-billing-support-{back}",
            )
        )  # fmt: skip
    session.flush()
