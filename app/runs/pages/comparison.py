"""The page that compares two runs: the verdict, whether they are comparable, and the flipped items."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response

from app.access.deps import READ
from app.agents.queries import get_agent
from app.benchmarks.queries import get_benchmark
from app.comparison import stored_run_comparison
from app.comparison.change_text import describe_change
from app.comparison.schemas import Comparison, FlippedItem, FlippedItems
from app.core.errors import Invalid
from app.core.web.deps import Res
from app.core.web.page_paths import path_of
from app.core.web.pages import build_url, render_page
from app.core.web.routes import Router
from app.kpis.number_text import format_number
from app.kpis.verdict_types import ValueVerdict
from app.results.queries import get_run

router = Router()

PAIR = 2

# What is shown, and the order of the flipped items.
Shown = Literal["all", "flips"]
ItemOrder = Literal["fall", "rise", "item"]

RunIds = Annotated[list[str] | None, Query(max_length=PAIR)]


@router.get("/compare", dependencies=READ)
def show_comparison(
    request: Request,
    res: Res,
    run: RunIds = None,
    base: Annotated[str, Query(max_length=200)] = "",
    metric: Annotated[str, Query(max_length=200)] = "",
    only: Shown = "all",
    sort: ItemOrder = "fall",
) -> Response:
    """Compare `run` with `base`; of two runs without a base, the earlier one is the base."""
    runs = run or []
    if len(runs) + bool(base) != PAIR:
        raise Invalid(
            "a comparison needs two runs; select two runs of one benchmark in the list of runs"
        )
    with res.db.read() as session:
        pair = [get_run(session, id_) for id_ in (base, *runs) if id_]
        if not base:
            pair.sort(key=lambda run: run.seq)
        ids = [run.id for run in pair]
        agents = dict.fromkeys(get_agent(session, run.agent_id).name for run in pair)
        benchmark = get_benchmark(session, pair[1].benchmark_id)
        benchmark_name = benchmark.display_name
    comparison = stored_run_comparison.compare_in_child(
        res.db, [ids[0]], ids[1], metric=metric or None
    )
    flips = comparison.flipped_items
    with res.db.read() as session:
        peers = [(get_agent(session, peer.agent_id).name, peer) for peer in comparison.peers]
    return render_page(
        request,
        "compare.html",
        title="Compare",
        nav="/runs",
        api=build_url(
            "/benchmark-runs/compare", baseline=ids[0], candidate=ids[1], metric=metric or None
        ),
        agents=list(agents),
        benchmark=benchmark_name,
        comparison=comparison,
        base=ids[0],
        run=ids[1],
        swap=build_url(
            "/compare",
            base=ids[1],
            run=ids[0],
            metric=metric,
            only=_unless(only, "all"),
            sort=_unless(sort, "fall"),
        ),
        only=only,
        sort=sort,
        kpis=[_row(kpi.name, kpi.verdict) for kpi in comparison.kpis],
        metrics=[
            _row(metric.metric, metric.verdict)
            for metric in (*comparison.metrics, *comparison.usage)
        ],
        categories=_category_rows(comparison),
        peers=peers,
        flips=flips,
        items=_items(comparison, _in_order(flips, sort) if flips else ()),
        metric_names=[metric.metric for metric in comparison.metrics],
    )


def _unless(choice: str, default: str) -> str | None:
    """A choice of the address; None for the default, which the address leaves out."""
    return None if choice == default else choice


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
    }


def _category_rows(comparison: Comparison) -> list[tuple[str, int, dict[str, Any]]]:
    """Each category with its items and the change of each KPI, or of each metric without KPIs."""
    return [
        (category.category, category.items, row)
        for category in comparison.categories
        for row in (
            [_row(kpi.name, kpi.verdict) for kpi in category.kpis]
            or [_row(metric.metric, metric.verdict) for metric in category.metrics]
        )
    ]


def _items(comparison: Comparison, items: Sequence[FlippedItem]) -> list[dict[str, Any]]:
    flips = comparison.flipped_items
    # The API has those that fell before those that rose.
    fell = {item.item_id for item in flips.items[: flips.regressions]} if flips else set()
    return [
        {
            "item": item,
            "fell": item.item_id in fell,
            "before": format_number(item.baseline),
            "now": format_number(item.candidate),
            "url": build_url(
                path_of("runs", comparison.candidate.id, "items"),
                item=item.item_id,
                base=comparison.baseline.id,
            ),
        }
        for item in items
    ]
