"""The page of a benchmark's power: the drop that so many items and trials detect."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Query, Request, Response

from mosaico.access.deps import READ
from mosaico.agents.queries import list_agent_names
from mosaico.benchmarks.pages import NAV, STEPS
from mosaico.benchmarks.queries import get_benchmark
from mosaico.comparison import power
from mosaico.comparison.schemas import PowerRequest
from mosaico.core.text import format_number
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.sent_fields import check_form, number_or_text
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import ComputedRequest, Crumb, render_page
from mosaico.core.web.routes import Router

router = Router()

Typed = Annotated[str, Query(max_length=200)]


@router.get("/benchmarks/{benchmarkId}/power", dependencies=READ)
def show_power(
    request: Request,
    benchmark_id: Annotated[str, Path(alias="benchmarkId")],
    res: Res,
    agent: Typed = "",
    items: Typed = "",
    trials: Typed = "",
    drop: Typed = "",
) -> Response:
    """Show the change that a number of items and trials detects; empty fields default to the newest
    valid run.
    """
    with res.db.read() as session:
        benchmark = get_benchmark(session, benchmark_id)
        name = benchmark.display_name
        agents = list_agent_names(session)
    numbers = {"items": items, "trials": trials, "drop": drop}
    document = {
        "agentId": agent or None,
        **{
            key: int(text) if text.isdecimal() else number_or_text(text.strip())
            for key, text in numbers.items()
        },
    }
    checked = check_form(PowerRequest, document)
    estimates, is_measured = [], True
    if body := checked.body:
        size = power.BenchmarkSize(body.items, body.trials, body.drop)
        try:
            estimates = list(power.estimate_power(res.db, benchmark_id, body.agent_id, size))
        except power.NoValidRun:
            is_measured = False
    return render_page(
        request, "power.html", title=f"Power of {name}", nav=NAV,
        status=HTTPStatus.OK if body else HTTPStatus.UNPROCESSABLE_ENTITY,
        api=path_of("benchmarks", benchmark_id),
        api_question=ComputedRequest(
            path_of("benchmarks", benchmark_id, "power"),
            {key: value for key, value in document.items() if value is not None},
        ),
        steps=[*STEPS, Crumb(name, path_of("benchmarks", benchmark_id))],
        benchmark_id=benchmark_id, agents=agents.choices(("", "of the newest run")),
        typed={"agent": agent, **numbers}, errors=checked.errors, is_measured=is_measured,
        rows=[
            (row, None if row.min_detectable_effect is None else format_number(row.min_detectable_effect))
            for row in estimates
        ],
    )  # fmt: skip
