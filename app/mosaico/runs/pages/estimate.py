"""The page that counts the requests of a run over production traces before it is started."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import Path, Request, Response

from mosaico.access.deps import RUN
from mosaico.agents.queries import list_agent_names
from mosaico.benchmarks.pages import NAV, STEPS
from mosaico.benchmarks.queries import get_benchmark
from mosaico.core.errors import AppError, ErrorItem, Invalid
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.local_times import UTC_ZONE, FormZones, read_local_time
from mosaico.core.web.forms.sent_fields import (
    CheckedForm,
    FormFields,
    SentForm,
    check_form,
    errors_by_field,
)
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.page_text import find_zone
from mosaico.core.web.pages import ComputedRequest, Crumb, reader_zone, render_page
from mosaico.core.web.routes import Router
from mosaico.runs.estimates import estimate_run
from mosaico.runs.schemas import EstimateView, RunEstimate

router = Router()

BenchmarkId = Annotated[str, Path(alias="benchmarkId")]


@router.get("/benchmarks/{benchmarkId}/estimate", dependencies=RUN)
def show_estimate_form(request: Request, benchmark_id: BenchmarkId, res: Res) -> Response:
    """The form: which agent, and which time of its production."""
    typed = {"agent": "", "from": "", "to": "", "zone": reader_zone(request).key}
    return _render(request, res, benchmark_id, typed)


# A form that is sent, because its answer costs requests to the source.
@router.post("/benchmarks/{benchmarkId}/estimate", dependencies=RUN)
def show_estimate(
    request: Request, benchmark_id: BenchmarkId, form: SentForm, res: Res
) -> Response:
    """The requests that the run would send; it is not started."""
    typed = {name: form.text(name) for name in ("agent", "from", "to", "zone")}
    try:
        document = {
            "benchmarkId": benchmark_id, "agentId": typed["agent"], "traceWindow": window_of(form)
        }  # fmt: skip
        checked = check_form(RunEstimate, document)
    except Invalid as error:
        checked = CheckedForm(None, errors_by_field(error.errors))
    if checked.body is None:
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        return _render(request, res, benchmark_id, typed, errors=checked.errors, status=status)
    try:
        estimate = estimate_run(res, checked.body)
    except AppError as error:
        errors = {"": error.detail}
        return _render(request, res, benchmark_id, typed, errors=errors, status=error.status)
    return _render(request, res, benchmark_id, typed, estimate=estimate)


def window_of(form: FormFields) -> dict[str, str] | None:
    """The sent range of production traces; None for that of the benchmark. Raises: `Invalid`."""
    if not (form.text("from") or form.text("to")):
        return None
    zone = find_zone(form.text("zone")) or UTC_ZONE
    return {name: _read_end(name, form.text(name), zone) for name in ("from", "to")}


def _read_end(name: str, text: str, zone: ZoneInfo) -> str:
    try:
        return read_local_time(text, zone) if text else ""
    except ValueError as error:
        item = ErrorItem(pointer=f"/traceWindow/{name}", detail=str(error))
        raise Invalid(f"the time {text!r} {error}", errors=[item]) from None


def _render(
    request: Request,
    res: Resources,
    benchmark_id: str,
    typed: Mapping[str, str],
    *,
    errors: Mapping[str, str] | None = None,
    estimate: EstimateView | None = None,
    status: int = HTTPStatus.OK,
) -> Response:
    with res.db.read() as session:
        benchmark = get_benchmark(session, benchmark_id)
        name = benchmark.display_name
        has_production = benchmark.production is not None
        choices = list_agent_names(session).choices()
    document: dict[str, Any] = {"benchmarkId": benchmark_id, "agentId": typed["agent"]}
    return render_page(
        request, "estimate.html", title=f"Estimate a run of {name}", nav=NAV, status=status,
        api=path_of("benchmarks", benchmark_id),
        api_question=ComputedRequest("/benchmark-runs/estimate", document),
        steps=[*STEPS, Crumb(name, path_of("benchmarks", benchmark_id))],
        benchmark_id=benchmark_id, agents=choices, typed=typed, errors=errors or {},
        estimate=estimate, has_production=has_production,
        zones=FormZones(reader_zone(request), {}).choices(typed["zone"]),
    )  # fmt: skip
