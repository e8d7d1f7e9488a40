"""Pages of runs: the list, one run with its live progress, and what a user can do with them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Path, Query, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import ADMIN, READ, RUN, get_caller
from mosaico.agents.queries import add_agent_names
from mosaico.benchmarks.queries import add_benchmark_names, list_owner_names
from mosaico.comparison import baselines
from mosaico.core.errors import Invalid
from mosaico.core.keyset import DEFAULT_LIMIT, MAX_LIMIT, PageQuery, PageRows
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.page_filters import PageFilters, SentFilters
from mosaico.core.web.forms.sent_fields import FormFields, SentForm, check_form
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import (
    build_url,
    newest_time,
    render_page,
    see_other,
    sent_parameters,
)
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router
from mosaico.run_store import run_list
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.queries import get_run
from mosaico.run_store.rules import RunStatus, TriggerType
from mosaico.run_store.run_list import DEFAULT_SORT, LISTED_COLUMNS, RunCount, RunListFilter
from mosaico.run_store.run_outcome import (
    KpiOutcome,
    list_kpi_outcomes,
    name_elsewhere,
)
from mosaico.runs import retention, service
from mosaico.runs.pages import run_view
from mosaico.runs.pages.answers import Cursor, Typed
from mosaico.runs.pages.comparison import list_choices
from mosaico.runs.pages.estimate import window_of
from mosaico.runs.schemas import RunAcceptance
from mosaico.traces.production import TraceWindow

router = Router()

# A list that starts elsewhere offers new runs if the newest one is found in this time.
NEWEST_TIME_S = 0.1

RunId = Annotated[str, Path(alias="runId")]
RunFilters = Annotated[
    SentFilters[RunListFilter],
    Depends(PageFilters(RunListFilter, "text benchmark agent status verdict from to")),
]
ChosenIds = Annotated[list[str] | None, Query(alias="run", max_length=2)]
OnlyIds = Annotated[list[str] | None, Query(alias="id", max_length=DEFAULT_LIMIT)]


class RunRow(NamedTuple):
    """A run in the list; `outcome` is the verdict of the whole run, empty without one; `decided_by` names the KPI from which it
    follows, unless it is the one that stands for the benchmark; `dataset` has the version whose items it tests.
    """

    id: str
    status: str
    is_active: bool
    outcome: str
    decided_by: str | None
    agent: str
    benchmark: str
    run_name: str | None
    dataset: str | None
    traces: str
    created_at: datetime
    completed_at: datetime | None
    took: timedelta | None


@router.get("/runs", dependencies=READ)
def show_runs(
    request: Request,
    res: Res,
    query: ListQuery,
    filters: RunFilters,
    sort: run_list.SortOrder = DEFAULT_SORT,
    chosen_ids: ChosenIds = None,
    only_ids: OnlyIds = None,
) -> Response:
    """The list of runs: filtered, sorted and page by page. `run` are those that are chosen for a comparison;
    with `id` the page shows these runs only.
    """
    run_filter, selection = filters.of_list, filters.in_api
    is_newest_first = sort == DEFAULT_SORT and not query.cursor and not only_ids
    with res.db.read() as session:
        page = (
            PageRows(run_list.list_runs_by_id(session, only_ids), None)
            if only_ids
            else run_list.search_runs(session, run_filter, sort, query, columns=LISTED_COLUMNS)
        )
        count = (
            run_list.count_runs(session, run_filter)
            if query.cursor or page.next_cursor
            else RunCount(len(page.rows), is_exact=True)
        )
        newest = page if is_newest_first else _find_newest(session, run_filter)
        shown_ids = {row["id"] for row in page.rows}
        elsewhere = [run_id for run_id in chosen_ids or [] if run_id not in shown_ids]
        selected_rows = run_list.list_runs_by_id(session, elsewhere)
        names = list_owner_names(session)
        rows = [*page.rows, *selected_rows]
        owners = (
            add_agent_names(session, dict(names["agent"]), (row["agent_id"] for row in rows)),
            add_benchmark_names(
                session, dict(names["benchmark"]), (row["benchmark_id"] for row in rows)
            ),
        )
        kpis = list_kpi_outcomes(session, [row["seq"] for row in rows])
    # A run that was deleted is no longer selected.
    chosen_ids = [
        run_id
        for run_id in chosen_ids or []
        if run_id in shown_ids or any(row["id"] == run_id for row in selected_rows)
    ]
    parameters = {**sent_parameters(request), "run": chosen_ids}
    return render_page(
        request,
        "runs.html",
        title="Runs",
        nav="/runs",
        api=None
        if only_ids
        else build_url(
            "/benchmark-runs", selection, sort=sort, cursor=query.cursor, limit=query.limit
        ),
        csv=build_url("/api/v1/benchmark-runs.csv", selection, sort=sort),
        runs=[_row(run, kpis, *owners) for run in page.rows],
        chosen=[_row(run, kpis, *owners) for run in selected_rows],
        count=_count_text(count, len(chosen_ids)),
        newest_at=newest_time(newest.rows[0]["created_at"] if newest.rows else None),
        # Without the newest run, a list that goes on would call every run new.
        newest_url=""
        if only_ids or (newest.next_cursor and not newest.rows)
        else build_url("/api/v1/benchmark-runs", selection, limit=query.limit),
        is_newest_first=is_newest_first,
        next_cursor=page.next_cursor,
        params=parameters,
        sort=sort,
        filters=filters.fields,
        names=names,
    )


@router.post("/runs", dependencies=RUN)
def start_run(form: SentForm, res: Res) -> Response:
    """Start a run and show it."""
    with res.db.begin() as session:
        run = service.create_run(
            session,
            form.text("benchmark"),
            form.text("agent"),
            trigger=TriggerType.MANUAL,
            run_name=form.text("runName") or None,
            window=_window(form),
        )
    return _to_run(run.id)


@router.get("/runs/{runId}", dependencies=READ)
def show_run(
    request: Request, run_id: RunId, res: Res, typed: Typed, cursor: Cursor = ""
) -> Response:
    """Show one run: its verdict with the reasons, and its validity; during the run, its
    progress.
    """
    with res.db.read() as session:
        view = run_view.load_run_page(
            session, run_id, res, request=request, typed=typed, cursor=cursor
        )
        run = view["run"]
        choices = (
            list_choices(session, request, res, run) if run.status == RunStatus.COMPLETED else []
        )
    return render_page(
        request,
        "run.html",
        title=", ".join(filter(None, (view["agent"], view["benchmark"], view["same_answers"]))),
        nav="/runs",
        api=f"/benchmark-runs{path_of(run_id)}",
        api_parts=_parts_in_api(run, view),
        choices=[choice for choice in choices if choice[0] != run.id],
        **view,
    )


def _parts_in_api(run: BenchmarkRun, view: Mapping[str, Any]) -> dict[str, str]:
    """What the page shows beside the run."""
    address = f"/benchmark-runs{path_of(run.id)}"
    parts = {"KPIs": f"{address}/kpis", "metrics": f"{address}/metrics"}
    if view["changes"]:
        parts["attributes"] = f"{address}/attributes"
    if view["annotated"]:
        parts["annotations"] = build_url("/annotations/summary", runId=run.id)
    parts["alerts"] = build_url("/alerts", runId=run.id, limit=run_view.MAX_ALERTS)
    if view["alerts"]:
        parts["alert rules"] = build_url(
            "/alert-configs", benchmarkId=run.benchmark_id, limit=MAX_LIMIT
        )
    if view["baselines"]:
        parts["baseline"] = path_of("benchmark-runs", view["baselines"][0].id)
    if view["answers"]:
        parts["answers"] = build_url(f"{address}/answers", view["answers"]["query"])
        parts["distributions"] = f"{address}/distributions"
    if view["costs"]:
        parts["costs"] = f"{address}/costs"
    if view["trend"]:
        parts["trend"] = build_url("/kpi-history", view["trend_query"])
    if view["usage"]:
        parts["judges"] = f"{address}/llm-usage"
    if view["expected_end_at"]:
        parts["expected end"] = "/overview"
    return parts


@router.post("/runs/{runId}/cancel", dependencies=RUN)
def cancel_run(run_id: RunId, res: Res) -> Response:
    """Cancel a run."""
    with res.db.begin() as session:
        service.cancel_run(session, run_id, res.clock())
    return _to_run(run_id)


@router.post("/runs/{runId}/retry", dependencies=RUN)
def retry_run(run_id: RunId, res: Res) -> Response:
    """Start a new attempt and show it."""
    with res.db.begin() as session:
        run = service.retry_run(session, run_id)
    return _to_run(run.id)


@router.post("/runs/{runId}/rescore", dependencies=RUN)
def rescore_run(run_id: RunId, res: Res) -> Response:
    """Score the traces again and show the new run."""
    with res.db.begin() as session:
        run = service.rescore_run(session, run_id)
    return _to_run(run.id)


@router.post("/runs/{runId}/accept", dependencies=ADMIN)
def accept_run(run_id: RunId, request: Request, form: SentForm, res: Res) -> Response:
    """Accept the level of a run."""
    checked = check_form(RunAcceptance, {"note": form.text("note") or None})
    if checked.body is None:
        raise Invalid(f"the note {checked.errors['note']}")
    by = get_caller(request).key_id
    with res.db.begin() as session:
        service.accept_run(session, run_id, by=by, note=checked.body.note, now=res.clock())
    return _to_run(run_id)


@router.post("/runs/{runId}/pin", dependencies=ADMIN)
def pin_baseline(run_id: RunId, res: Res) -> Response:
    """Make a run the baseline of later runs of its agent."""
    with res.db.begin() as session:
        run = get_run(session, run_id)
        baselines.pin_baseline(session, run.benchmark_id, run_id, res.clock())
    return _to_run(run_id)


@router.post("/runs/{runId}/unpin", dependencies=ADMIN)
def unpin_baseline(run_id: RunId, res: Res) -> Response:
    """Compare later runs of the agent with the runs before them again."""
    with res.db.begin() as session:
        run = get_run(session, run_id)
        baselines.unpin_baseline(session, run.benchmark_id, run.agent_id)
    return _to_run(run_id)


@router.post("/runs/{runId}/delete", dependencies=ADMIN)
def delete_run(run_id: RunId, res: Res) -> Response:
    """Delete a run that has ended, with its values and its KPI history."""
    with res.db.begin() as session:
        retention.delete_run(session, run_id)
    return see_other("/runs")


def _window(form: FormFields) -> TraceWindow | None:
    """The sent range of production traces. Raises: `Invalid`."""
    window = window_of(form)
    if window is None:
        return None
    checked = check_form(TraceWindow, window)
    if checked.body is None:
        raise Invalid(f"the range of the traces is not valid: {'; '.join(checked.errors.values())}")
    return checked.body


def _to_run(run_id: str) -> Response:
    return see_other(path_of("runs", run_id))


def _find_newest(session: Session, run_filter: RunListFilter) -> PageRows[Mapping[str, Any]]:
    return run_list.search_runs(
        session, run_filter, DEFAULT_SORT, PageQuery(1), NEWEST_TIME_S, columns=LISTED_COLUMNS
    )


def _row(
    run: Mapping[str, Any],
    kpis: Mapping[int, Sequence[KpiOutcome]],
    agents: Mapping[str, str],
    benchmarks: Mapping[str, str],
) -> RunRow:
    started, completed, total = run["started_at"], run["completed_at"], run["traces_total"]
    return RunRow(
        id=run["id"],
        status=run["status"],
        is_active=not RunStatus(run["status"]).is_final,
        outcome=run["outcome"],
        decided_by=name_elsewhere(kpis.get(run["seq"], ()), run["outcome"]),
        agent=agents.get(run["agent_id"], run["agent_id"]),
        benchmark=benchmarks.get(run["benchmark_id"], run["benchmark_id"]),
        run_name=run["run_name"],
        dataset=None
        if run["dataset_version"] is None
        else f"{run['dataset_name']} v{run['dataset_version']}",
        traces=f"{run['traces_processed']:,} of {total:,}"
        if total
        else f"{run['traces_collected']:,}",
        created_at=run["created_at"],
        completed_at=completed,
        took=completed - started if started and completed else None,
    )


def _count_text(run_count: RunCount, selected_count: int) -> str:
    runs = "1 run" if run_count.number == 1 else f"{run_count.number:,} runs"
    if not run_count.is_exact:
        runs = f"at least {runs}" if run_count.number else "no run found yet"
    return f"{runs}, {selected_count} selected" if selected_count else runs
