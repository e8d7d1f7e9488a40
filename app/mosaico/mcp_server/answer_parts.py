"""Turns documents of the API into the parts of answers."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from mosaico.comparison.attribute_text import describe_cover, describe_difference, describe_proof
from mosaico.core.web.page_paths import run_page_path, trace_page_path
from mosaico.kpis.schemas import KpiValueView
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.mcp_server.answers import ChangedValue, Difference, RunLine
from mosaico.mcp_server.envelope import enclose
from mosaico.mcp_server.lookup import ServiceView
from mosaico.run_store.recorded_attributes import WhatChanged
from mosaico.runs.schemas import RunView

T = TypeVar("T")

MAX_DIFFERENCES: Final = 6
MAX_VALUES: Final = 12
_MAX_PATH: Final = 500


def run_line(view: ServiceView, run: RunView) -> RunLine:
    """A run in one line."""
    verdict = run.verdict.verdict if run.verdict else None
    return RunLine(
        run=run.id,
        name=enclose(run.run_name) if run.run_name else None,
        agent=run.agent_id,
        benchmark=run.benchmark_id,
        status=str(run.status),
        verdict=str(verdict) if verdict else None,
        created_at=run.created_at.isoformat(timespec="seconds"),
        page=view.page(run_page_path(run.id)),
    )


def trace_page(view: ServiceView, run_id: str, trace_id: str) -> str:
    """The page of a trace; that of its run, where the ID of the trace makes the address too long for an answer."""
    path = trace_page_path(run_id, trace_id)
    return view.page(path if len(path) <= _MAX_PATH else run_page_path(run_id))


def changed_value(
    name: str, verdict: ValueVerdict | None, *, gate: bool | None = None, unit: str | None = None
) -> ChangedValue:
    """A KPI or metric with its verdict; the interval is the adjusted one, from which the verdict follows."""
    if verdict is None:
        return ChangedValue(name=enclose(name), gate=gate, unit=enclose(unit) if unit else None)
    is_adjusted = verdict.low_adjusted is not None
    return ChangedValue(
        name=enclose(name),
        verdict=str(verdict.verdict) if verdict.verdict else None,
        gate=gate,
        before=verdict.baseline_value,
        after=verdict.value,
        change=verdict.effect,
        low=verdict.low_adjusted if is_adjusted else verdict.low,
        high=verdict.high_adjusted if is_adjusted else verdict.high,
        scale=str(verdict.scale) if verdict.scale else None,
        unit=enclose(unit) if unit else None,
    )


def deciding_kpis(kpis: Sequence[KpiValueView]) -> list[ChangedValue]:
    """The KPIs that decide a run: those of the gate, otherwise all; those with a regression first."""
    of_gate = [kpi for kpi in kpis if kpi.gate] or list(kpis)
    values = [changed_value(kpi.name, kpi.verdict, gate=kpi.gate, unit=kpi.unit) for kpi in of_gate]
    return worst_first(values)


def worst_first(values: Iterable[ChangedValue]) -> list[ChangedValue]:
    """The values with a regression first, otherwise in their order."""
    return sorted(values, key=lambda value: value.verdict != "REGRESSED")


def differences_of(changed: WhatChanged) -> list[Difference]:
    """What differs between two runs, with what it covers of the drop."""
    return [
        Difference(
            difference=enclose(describe_difference(difference)),
            items=describe_cover(difference, changed),
            proof=describe_proof(difference, changed),
        )
        for difference in changed.differences
    ]


def cut_list(items: Sequence[T], limit: int, notices: list[str], remedy: str) -> list[T]:
    """The first items; a notice says how many more there are, and what shows them."""
    note_more(len(items) - limit, notices, remedy)
    return list(items[:limit])


def note_more(count: int, notices: list[str], remedy: str) -> None:
    """Add the notice of items that are left out: "7 more items: …"."""
    if count > 0:
        notices.append(f"{count:,} more {remedy}")
