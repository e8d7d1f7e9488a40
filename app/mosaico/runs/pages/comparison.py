"""The page that compares two runs: the verdict, whether they are comparable, and the flipped items."""

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import Query, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import READ
from mosaico.agents.queries import add_agent_names, get_agent, list_agent_names
from mosaico.benchmarks.queries import get_benchmark
from mosaico.comparison import stored_run_comparison
from mosaico.comparison.change_text import describe_change, format_amount
from mosaico.comparison.change_view import view_changes
from mosaico.comparison.compared_items import (
    ItemOrder,
    common_metrics,
    compare_items,
    describe_items,
    less_is_better,
)
from mosaico.comparison.comparison_store import compare_for_page
from mosaico.comparison.peers import MAX_PEERS
from mosaico.comparison.schemas import Comparison, FlippedItem, FlippedItems
from mosaico.comparison.stored_run_comparison import ComparisonRequest
from mosaico.core.errors import Invalid
from mosaico.core.keyset import PageQuery
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.page_text import format_instant
from mosaico.core.web.pages import build_url, reader_zone, render_page, see_other
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.queries import get_run
from mosaico.run_store.rules import RunStatus
from mosaico.run_store.run_list import (
    DEFAULT_SORT,
    LISTED_COLUMNS,
    RunListFilter,
    list_runs_by_id,
    search_runs,
)
from mosaico.runs.pages.flips import case_row
from mosaico.statistics.verdict_rules import About, ChangeMethod

router = Router()

PAIR = 2
RECENT_RUNS = 30
# Completed runs are the most: those of a benchmark are found at once.
RECENT_TIME_S = 0.1


Shown = Literal["all", "flips"]
Layout = Literal["metric", "case"]
# An empty choice of a form is sent, too: then the benchmark or the data choose.
Question = Literal["", "TASKS", "POPULATION"]

RunIds = Annotated[list[str] | None, Query(max_length=PAIR)]
BaseIds = Annotated[list[str] | None, Query(max_length=stored_run_comparison.MAX_BASELINE_RUNS)]
Judged = Annotated[list[str] | None, Query(max_length=stored_run_comparison.MAX_JUDGED)]


@router.get("/compare", dependencies=READ)
def show_comparison(
    request: Request,
    res: Res,
    query: ListQuery,
    run: RunIds = None,
    base: BaseIds = None,
    judge: Judged = None,
    metric: Annotated[str, Query(max_length=200)] = "",
    only: Shown = "all",
    sort: ItemOrder = "fall",
    layout: Layout = "metric",
    about: Question = "",
    categories_after: Annotated[
        str | None,
        Query(alias="categoriesAfter", max_length=stored_run_comparison.MAX_CATEGORY_CHARS),
    ] = None,
    base_id: Annotated[str, Query(alias="baseId", max_length=2_000)] = "",
    run_id: Annotated[str, Query(alias="runId", max_length=200)] = "",
) -> Response:
    """Compare `run` with the mean of `base`; of two runs without a base, the earlier one is the base. IDs
    that were typed (`baseId`, `runId`) take the place of the run that was chosen.
    """
    choice = _Choice(metric, judge or [], only, sort, layout, about, categories_after, query)
    runs, bases = run or [], list(filter(None, base or ()))
    # An empty input is sent, too: the address of a comparison is the same however the runs were chosen.
    if request.query_params.keys() & {"baseId", "runId"}:
        bases = [*(base_id.split() or bases[:1]), *bases[1:]]
        return see_other(build_url("/compare", choice.address_of(bases, run_id.strip() or runs)))
    if len(runs) + bool(bases) != PAIR:
        raise Invalid(
            "a comparison needs two runs; select two runs of one benchmark in the list of runs"
        )
    with res.db.read() as session:
        compared = _load_runs(session, request, res, bases, runs)
    comparison = compare_for_page(
        res.db,
        ComparisonRequest(
            tuple(compared.base_ids), compared.candidate.id, metric or None, tuple(choice.judged),
            categories_after, About(about) if about else None,
        ),
    )  # fmt: skip
    if comparison is None:
        return _render_waiting(request, compared, choice)
    return _render_comparison(request, res, compared, choice, comparison)


class _Choice(NamedTuple):
    """What a reader chose to see of a comparison."""

    metric: str
    judged: list[str]
    only: Shown
    sort: ItemOrder
    layout: Layout
    about: Question
    categories_after: str | None
    query: PageQuery

    def address_of(self, bases: Sequence[str], runs: str | Sequence[str]) -> dict[str, Any]:
        """The parameters that every link of the page keeps."""
        return {
            "base": bases,
            "run": runs,
            "judge": self.judged,
            "layout": _unless(self.layout, "metric"),
            "about": _unless(self.about, ""),
        }


class _ComparedRuns(NamedTuple):
    """The runs of a comparison, and what the page says of them."""

    baselines: list[BenchmarkRun]
    candidate: BenchmarkRun
    agents: list[str]
    benchmark: str
    choices: list[tuple[str, str]]

    @property
    def base_ids(self) -> list[str]:
        return [run.id for run in self.baselines]


def _load_runs(
    session: Session, request: Request, res: Resources, bases: Sequence[str], runs: Sequence[str]
) -> _ComparedRuns:
    compared = [get_run(session, id_) for id_ in (*dict.fromkeys(bases), *runs)]
    if not bases:
        compared.sort(key=lambda run: run.seq)
    *baselines, candidate = compared
    return _ComparedRuns(
        baselines,
        candidate,
        list(dict.fromkeys(get_agent(session, run.agent_id).name for run in compared)),
        get_benchmark(session, candidate.benchmark_id).display_name,
        list_choices(session, request, res, *compared),
    )


def _render_waiting(request: Request, runs: _ComparedRuns, choice: _Choice) -> Response:
    """The page until the comparison is computed."""
    return render_page(
        request,
        "comparing.html",
        title="Comparing",
        nav="/runs",
        status=HTTPStatus.ACCEPTED,
        api=_verdicts_in_api(runs, choice),
        agents=runs.agents,
        benchmark=runs.benchmark,
        baselines=runs.baselines,
        candidate=runs.candidate,
        traces=sum(run.traces_total or 0 for run in (*runs.baselines, runs.candidate)),
    )


def _render_comparison(
    request: Request,
    res: Resources,
    runs: _ComparedRuns,
    choice: _Choice,
    comparison: Comparison,
) -> Response:
    metrics = common_metrics(runs.baselines[0], runs.candidate)
    flips = comparison.flipped_items
    shown_metric = choice.metric or (flips.metric if flips else next(iter(metrics), ""))
    with res.db.read() as session:
        peers = [(get_agent(session, peer.agent_id).name, peer) for peer in comparison.peers]
        items = _load_items(session, runs, choice, flips, shown_metric)
    kpis = [_row(kpi.name, kpi.verdict) for kpi in comparison.kpis]
    rows = [_row(row.metric, row.verdict) for row in (*comparison.metrics, *comparison.usage)]
    return render_page(
        request,
        "compare.html",
        title="Compare",
        nav="/runs",
        **_addresses_in_api(runs, choice, shown_metric, has_flips=bool(flips)),
        **items,
        **runs._asdict(),
        comparison=comparison,
        what_changed_view=view_changes(comparison.what_changed),
        params={
            **choice.address_of(runs.base_ids, runs.candidate.id),
            "metric": choice.metric,
            "only": _unless(choice.only, "all"),
            "sort": _unless(choice.sort, "fall"),
            "cursor": choice.query.cursor,
        },
        case_metrics=metrics,
        shown_metric=shown_metric,
        layout=choice.layout,
        only=choice.only,
        sort=choice.sort,
        about=choice.about,
        kpis=kpis,
        metrics=rows,
        judged_names=dict.fromkeys([*(row["name"] for row in kpis + rows), *choice.judged]),
        categories=_category_rows(comparison),
        categories_after=choice.categories_after,
        peers=peers,
        max_peers=MAX_PEERS,
        flips=flips,
        metric_names=[metric.metric for metric in comparison.metrics],
    )


def _load_items(
    session: Session,
    runs: _ComparedRuns,
    choice: _Choice,
    flips: FlippedItems | None,
    metric: str,
) -> dict[str, Any]:
    """The items of the chosen layout: each with its trials in both runs, or those that flipped."""
    if choice.layout == "metric":
        rows = (
            _flip_rows(session, runs.baselines, runs.candidate, flips, choice.sort) if flips else []
        )
        return {"items": rows, "cases": [], "next_cursor": None}
    # The trials of an item are those of one run.
    pair = (runs.baselines[0], runs.candidate)
    cases = compare_items(session, pair, metric, choice.sort, choice.query)
    has_marks = not less_is_better(runs.candidate, metric)
    ids = (pair[0].id, pair[1].id)
    return {
        "items": [],
        "cases": [case_row(case, ids, has_marks=has_marks) for case in cases.rows],
        "next_cursor": cases.next_cursor,
    }


def _verdicts_in_api(runs: _ComparedRuns, choice: _Choice) -> str:
    return build_url(
        "/benchmark-runs/compare",
        baseline=runs.base_ids,
        candidate=runs.candidate.id,
        metric=choice.metric,
        judge=choice.judged,
        about=choice.about,
        categoriesAfter=choice.categories_after,
    )


def _addresses_in_api(
    runs: _ComparedRuns, choice: _Choice, metric: str, *, has_flips: bool
) -> dict[str, Any]:
    """The twin of the page in the API, and those of its parts."""
    verdicts = _verdicts_in_api(runs, choice)
    pair = {"baseline": runs.base_ids[0], "candidate": runs.candidate.id, "metric": metric}
    items = build_url(
        "/benchmark-runs/compare/items",
        pair,
        sort=choice.sort,
        limit=choice.query.limit,
        cursor=choice.query.cursor,
    )
    if choice.layout == "case":
        return {"api": items, "api_parts": {"verdicts": verdicts}}
    return {"api": verdicts, "api_parts": {"items": items} if has_flips else {}}


def _unless(choice: str, default: str) -> str | None:
    """A choice of the address; None for the default, which the address leaves out."""
    return None if choice == default else choice


def _flip_rows(
    session: Session,
    baselines: Sequence[BenchmarkRun],
    candidate: BenchmarkRun,
    flips: FlippedItems,
    order: ItemOrder,
) -> list[dict[str, Any]]:
    """The flipped items, each beside the first base that has it."""
    rows: dict[str, dict[str, Any]] = {}
    has_marks = not less_is_better(candidate, flips.metric)
    for baseline in baselines:
        items = {item.item_id: item for item in flips.items if item.item_id not in rows}
        if not items or flips.metric not in common_metrics(baseline, candidate):
            continue
        cases = describe_items(session, (baseline, candidate), flips.metric, list(items))
        for id_, case in cases.items():
            item = items[id_]
            # The trials are those of one base; an item flips against the mean of all.
            mean = {"baseline": item.baseline, "baseline_trials": [], "change": item.change}
            case_of_mean = case.model_copy(update=mean if baselines[1:] else {})
            row = case_row(case_of_mean, (baseline.id, candidate.id), has_marks=has_marks)
            rows[id_] = row | {"cause": item.cause}
    return [rows[item.item_id] for item in _in_order(flips, order) if item.item_id in rows]


def _in_order(flips: FlippedItems, order: ItemOrder) -> list[FlippedItem]:
    """The flipped items; the API has the worst fall first and the greatest rise last."""
    if order == "item":
        return sorted(flips.items, key=lambda item: item.item_id)
    return flips.items if order == "fall" else flips.items[::-1]


def _row(name: str, verdict: ValueVerdict) -> dict[str, Any]:
    text = describe_change(verdict, verdict.scale)
    return {
        "name": name,
        "verdict": verdict.verdict,
        "reason": verdict.reason or "not compared",
        "before": text.before if text else None,
        "now": text.after if text else None,
        "delta": text.delta if text else None,
        "evidence": ", ".join(filter(None, (text.interval, text.p))) if text else None,
        "test": ", ".join(_describe_test(verdict)),
    }


def _describe_test(verdict: ValueVerdict) -> Iterator[str]:
    """The test of a comparison, its number of items, and the smallest change that it would detect."""
    if verdict.method not in {None, ChangeMethod.NONE}:
        yield f"test: {verdict.method}"
    if verdict.about is not None:
        yield verdict.about.phrase
    if verdict.items is not None:
        yield f"{verdict.items} items"
    if verdict.min_detectable_effect is not None:
        yield f"reliably detects {format_amount(verdict.min_detectable_effect, verdict.scale)}"


def _category_rows(comparison: Comparison) -> list[tuple[str, int, dict[str, Any]]]:
    """Return a row for each category with its items and the change of each KPI, or metric without
    KPIs.
    """
    return [
        (category.category, category.items, row)
        for category in comparison.categories
        for row in (
            [_row(kpi.name, kpi.verdict) for kpi in category.kpis]
            or [_row(metric.metric, metric.verdict) for metric in category.metrics]
        )
    ]


def list_choices(
    session: Session, request: Request, res: Resources, *page_runs: BenchmarkRun
) -> list[tuple[str, str]]:
    """The IDs of the recent completed runs of a benchmark with their time and agent, and of the runs that
    the page shows.
    """
    recent = search_runs(
        session,
        RunListFilter.unchecked(
            benchmark_ids=[page_runs[0].benchmark_id], statuses=[RunStatus.COMPLETED]
        ),
        DEFAULT_SORT,
        PageQuery(RECENT_RUNS),
        search_time_s=RECENT_TIME_S,
        columns=LISTED_COLUMNS,
    ).rows
    listed = {row["id"] for row in recent}
    other_runs = list_runs_by_id(session, [run.id for run in page_runs if run.id not in listed])
    runs = [*recent, *other_runs]
    names = add_agent_names(session, list_agent_names(session), (row["agent_id"] for row in runs))
    zone, now = reader_zone(request), res.clock()
    return [
        (
            row["id"],
            f"{format_instant(row['created_at'], zone, now)} · {names[row['agent_id']]}",
        )
        for row in runs
    ]
