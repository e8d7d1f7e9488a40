"""The page that compares two runs: the verdict, whether they are comparable, and the flipped items."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Query, Request, Response

from app.access.deps import READ
from app.comparison import stored_run_comparison
from app.comparison.change_text import describe_change
from app.comparison.schemas import Comparison, FlippedItem
from app.core.errors import Invalid
from app.core.web.deps import Res
from app.core.web.pages import build_url, path_of, render_page
from app.core.web.routes import Router
from app.kpis.number_text import format_number
from app.kpis.verdict_types import ValueVerdict
from app.results.queries import get_run

router = Router()

PAIR = 2

RunIds = Annotated[list[str] | None, Query(max_length=PAIR)]


@router.get("/compare", dependencies=READ)
def show_comparison(
    request: Request,
    res: Res,
    run: RunIds = None,
    base: Annotated[str, Query(max_length=200)] = "",
    metric: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Compare `run` with `base`; of two runs without a base, the earlier one is the base."""
    runs = run or []
    if len(runs) + bool(base) != PAIR:
        raise Invalid(
            "a comparison needs two runs; select two runs of one benchmark in the list of runs"
        )
    with res.db.read() as session:
        ids = [base, *runs] if base else sorted(runs, key=lambda id_: get_run(session, id_).seq)
    comparison = stored_run_comparison.compare_in_child(
        res.db, [ids[0]], ids[1], metric=metric or None
    )
    flips = comparison.flipped_items
    return render_page(
        request,
        "compare.html",
        title="Compare",
        nav="/runs",
        api=build_url(
            "/benchmark-runs/compare", baseline=ids[0], candidate=ids[1], metric=metric or None
        ),
        comparison=comparison,
        base=ids[0],
        run=ids[1],
        swap=build_url("/compare", base=ids[1], run=ids[0], metric=metric),
        kpis=[_row(kpi.name, kpi.verdict) for kpi in comparison.kpis],
        metrics=[
            _row(metric.metric, metric.verdict)
            for metric in (*comparison.metrics, *comparison.usage)
        ],
        flips=flips,
        items=_items(comparison, flips.items if flips else ()),
        metric_names=[metric.metric for metric in comparison.metrics],
    )


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


def _items(comparison: Comparison, items: Sequence[FlippedItem]) -> list[dict[str, Any]]:
    return [
        {
            "item": item,
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
