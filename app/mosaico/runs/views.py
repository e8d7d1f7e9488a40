"""Runs and their traces as the API returns them."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from mosaico.access.queries import list_caller_names
from mosaico.core.schemas import view_of_row
from mosaico.run_store.deciding_metric import DecidingMetric, is_right_answer
from mosaico.run_store.item_nights import ItemNight
from mosaico.run_store.models import BenchmarkRun, TraceResult
from mosaico.run_store.queries import TraceDetail, TraceWithResult
from mosaico.run_store.trace_list import outcome_in_run
from mosaico.runs.schemas import (
    ItemNightView,
    MissingValueView,
    RunView,
    ToolCallView,
    TraceResultView,
    TraceView,
)
from mosaico.traces.models import CollectedTrace

COLUMNS = [name for name in RunView.model_fields if name not in ("results", "accepted_by_name")]


def run_view(session: Session, run: BenchmarkRun) -> RunView:
    return run_columns_view(session, {name: getattr(run, name) for name in COLUMNS})


def run_columns_view(session: Session, row: Mapping[str, Any]) -> RunView:
    return run_columns_views(session, [row])[0]


def run_columns_views(session: Session, rows: Sequence[Mapping[str, Any]]) -> list[RunView]:
    """Runs with the names of those who accepted their levels."""
    accepted_by = {row["accepted_by"] for row in rows} - {None}
    names = list_caller_names(session, accepted_by) if accepted_by else {}
    return [
        RunView(
            **{name: row[name] for name in COLUMNS},
            accepted_by_name=names.get(row["accepted_by"]),
            results=f"/api/v1/benchmark-runs/{row['id']}/results",
        )
        for row in rows
    ]


def trace_result_view(
    columns: list[str], row: TraceWithResult, decider: DecidingMetric | None
) -> TraceResultView:
    return TraceResultView(**_measured_trace(columns, row.trace, row.result, decider))


def trace_view(columns: list[str], row: TraceDetail, decider: DecidingMetric | None) -> TraceView:
    trace = row.trace
    return view_of_row(
        TraceView,
        trace,
        **_measured_trace(columns, trace, row.result, decider),
        scores=trace.scores or {},
        transcript=row.transcript,
    )


def item_night_view(night: ItemNight, decider: DecidingMetric | None) -> ItemNightView:
    return ItemNightView(
        run_id=night.run_id,
        agent_id=night.agent_id,
        created_at=night.created_at,
        trials=night.values or [],
        value=night.value,
        is_right=night.is_right(decider),
        traces=night.traces,
    )


def _measured_trace(
    columns: list[str],
    trace: CollectedTrace,
    result: TraceResult | None,
    decider: DecidingMetric | None,
) -> dict[str, Any]:
    """The fields that a list of traces and a single trace share."""
    notes = (result and result.notes) or {}
    return {
        "trace_id": trace.trace_id,
        "item_id": trace.item_id,
        "trial": trace.trial,
        "outcome": outcome_in_run(trace.outcome, notes),
        "is_right": is_right_answer(columns, result, decider),
        "input": trace.input,
        "expected_output": trace.expected_output,
        "expected_any": trace.expected_any or [],
        "expected_all": trace.expected_all or [],
        "output": trace.output,
        "error": trace.error,
        "tags": trace.tags,
        "attributes": trace.attributes or {},
        "url": trace.url,
        "input_tokens": trace.input_tokens,
        "output_tokens": trace.output_tokens,
        "cost_usd": trace.cost_usd,
        "latency_ms": trace.latency_ms,
        "turns": trace.turns,
        "tool_calls": None
        if trace.tool_calls is None
        else [ToolCallView.model_validate(call) for call in trace.tool_calls],
        "values": {} if result is None else dict(zip(columns, result.values, strict=True)),
        "missing": {
            key: MissingValueView.model_validate(why)
            for key, why in notes.items()
            if "reason" not in why
        },
        "reasons": {key: why["reason"] for key, why in notes.items() if "reason" in why},
    }
