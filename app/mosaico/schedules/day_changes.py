"""The runs of a day that fell, changed or could not be measured, with their names and numbers."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, select
from sqlalchemy.orm import Session

from mosaico.benchmarks.owner_names import OwnerNames, read_names
from mosaico.comparison.change_text import format_change
from mosaico.core.web.page_paths import run_page_path
from mosaico.kpis.models import KpiHistory
from mosaico.notifications.types import MessageItem
from mosaico.run_store.models import VERDICT_KEY, BenchmarkRun
from mosaico.run_store.run_outcome import find_deciding, outcome_of_kpi
from mosaico.schedules.schemas import ChangedRunView
from mosaico.statistics.verdict_rules import Verdict

MAX_CHANGED: Final = 50
_OUTCOMES: Final = (Verdict.REGRESSED, Verdict.CHANGED, Verdict.INVALID)
WORDS: Final = {
    Verdict.REGRESSED: "regressed", Verdict.CHANGED: "changed", Verdict.INVALID: "could not be measured",
}  # fmt: skip


def list_changed_runs(session: Session, runs: ColumnElement[bool]) -> list[ChangedRunView]:
    """Those of the selected runs that are news, the worst first: the `MAX_CHANGED` newest of each outcome. Neither a
    rescored run nor one with the data of an earlier run is news.
    """
    columns = (
        BenchmarkRun.id, BenchmarkRun.seq, BenchmarkRun.benchmark_id, BenchmarkRun.agent_id, BenchmarkRun.verdict,
        BenchmarkRun.validity_reasons, VERDICT_KEY.label("outcome"),
    )  # fmt: skip
    is_new = (runs, BenchmarkRun.rescore_of.is_(None), BenchmarkRun.same_data_as.is_(None))
    rows: list[Row[Any]] = []
    for outcome in _OUTCOMES:
        statement = select(*columns).where(*is_new, VERDICT_KEY.in_([outcome]))
        newest = statement.order_by(BenchmarkRun.seq.desc()).limit(MAX_CHANGED)
        rows += session.execute(newest).all()
    if not rows:
        return []
    names = read_names(session, [(row.benchmark_id, row.agent_id) for row in rows])
    kpis: dict[int, list[KpiHistory]] = {}
    for kpi in session.scalars(
        select(KpiHistory).where(KpiHistory.run_seq.in_(row.seq for row in rows))
    ):
        kpis.setdefault(kpi.run_seq, []).append(kpi)
    return [_changed_run(row, names, kpis.get(row.seq, ())) for row in rows]


def _changed_run(row: Row[Any], names: OwnerNames, kpis: Sequence[KpiHistory]) -> ChangedRunView:
    outcomes = {outcome.kpi_id: outcome for outcome in map(outcome_of_kpi, kpis)}
    deciding = find_deciding(outcomes.values(), row.outcome)
    kpi = next((kpi for kpi in kpis if deciding and kpi.kpi_id == deciding.kpi_id), None)
    has_number = row.outcome != Verdict.INVALID and kpi is not None and kpi.verdict is not None
    change = kpi.verdict if has_number and kpi is not None else None
    return ChangedRunView(
        id=row.id,
        benchmark_id=row.benchmark_id,
        benchmark_name=names.benchmarks[row.benchmark_id],
        agent_id=row.agent_id,
        agent_name=names.agents[row.agent_id],
        outcome=row.outcome,
        kpi_name=kpi.name if kpi is not None and change is not None else None,
        change=change,
        text=_text(row, kpi),
    )


def _text(row: Row[Any], kpi: KpiHistory | None) -> str:
    """The number before and now with its interval, or why there is none."""
    if row.outcome != Verdict.INVALID and kpi is not None and kpi.verdict is not None:
        return f"{kpi.name} {format_change(kpi.verdict, kpi.unit)}"
    reasons = "; ".join(row.validity_reasons or [])
    return reasons or (row.verdict.explanation if row.verdict else "too few traces were measured")


def describe_changed(runs: Sequence[ChangedRunView]) -> str:
    """The first of the regressed runs by name: "Billing bot fell on Support questions and 2 more fell"; empty for none."""
    fallen = [run for run in runs if run.outcome == Verdict.REGRESSED]
    if not fallen:
        return ""
    more = f" and {len(fallen) - 1} more" if len(fallen) > 1 else ""
    return f"{fallen[0].agent_name} regressed on {fallen[0].benchmark_name}{more}"


def changed_items(runs: Sequence[ChangedRunView]) -> Iterator[MessageItem]:
    """An item of a message for each of these runs."""
    for run in runs:
        yield MessageItem(
            title=f"{run.agent_name} on {run.benchmark_name}: {WORDS[Verdict(run.outcome)]}",
            sentences=(run.text,),
            link=run_page_path(run.id),
        )
