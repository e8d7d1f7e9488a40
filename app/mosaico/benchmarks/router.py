"""REST endpoints of benchmarks and their KPIs."""

from typing import Annotated

from fastapi import Path, Query, Response

from mosaico.access.deps import ADMIN, READ
from mosaico.access.idempotency import Idempotent
from mosaico.access.queries import revision_views
from mosaico.benchmarks import kpi_service, queries, service
from mosaico.benchmarks.schemas import (
    BenchmarkBody,
    BenchmarkCreate,
    BenchmarkPatch,
    BenchmarkRevisionView,
    BenchmarkView,
    KpiBody,
    KpiCreate,
    KpiPatch,
    KpiView,
)
from mosaico.benchmarks.views import benchmark_view, benchmark_views
from mosaico.core.dependents import Consent
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.resources import Resources
from mosaico.core.schemas import Page
from mosaico.core.web.deps import Res
from mosaico.core.web.etag import IfMatch, IfNoneMatch, RevisionCheck
from mosaico.core.web.query_parameters import Cascade, PageParams
from mosaico.core.web.routes import Router

router = Router(prefix="/benchmarks", tags=["benchmarks"])

BenchmarkId = Annotated[str, Path(alias="benchmarkId")]
KpiId = Annotated[str, Path(alias="kpiId")]


@router.post("", status_code=201, response_model=BenchmarkView, dependencies=ADMIN)
def create_benchmark(body: BenchmarkCreate, res: Res, once: Idempotent) -> Response:
    """Create a benchmark with its dataset, its metrics and, as `measures`, its KPIs."""
    return once(
        body,
        lambda session: body.confirm_created(
            benchmark_view(session, service.create_benchmark(session, body, res.clock()))
        ),
        location=lambda benchmark: f"/api/v1/benchmarks/{benchmark.id}",
    )


@router.get("", dependencies=READ)
def list_benchmarks(
    res: Res, page: PageParams, archived: Annotated[bool, Query()] = False
) -> Page[BenchmarkView]:
    """List benchmarks, newest first; `archived=true` lists the archived ones."""
    with res.db.read() as session:
        rows = queries.list_benchmarks(session, page, archived=archived)
        return Page(items=benchmark_views(session, rows.rows), next_cursor=rows.next_cursor)


@router.get("/{benchmarkId}", dependencies=READ)
def get_benchmark(benchmark_id: BenchmarkId, res: Res, tagged: IfNoneMatch) -> BenchmarkView:
    """Show a benchmark."""
    with res.db.read() as session:
        return tagged(benchmark_view(session, queries.get_benchmark(session, benchmark_id)))


@router.get("/{benchmarkId}/revisions", dependencies=READ)
def list_benchmark_revisions(
    benchmark_id: BenchmarkId, res: Res, page: PageParams
) -> Page[BenchmarkRevisionView]:
    """List the edits of a benchmark and of its KPIs, newest first, with their notes."""
    with res.db.read() as session:
        queries.get_benchmark(session, benchmark_id)
        rows = queries.list_revisions(session, benchmark_id, page)
        views = revision_views(session, BenchmarkRevisionView, rows.rows)
        return Page(items=views, next_cursor=rows.next_cursor)


@router.patch("/{benchmarkId}", dependencies=ADMIN, responses=CONFLICT)
def change_benchmark(
    benchmark_id: BenchmarkId, body: BenchmarkPatch, res: Res, match: IfMatch
) -> BenchmarkView:
    """Change the given fields. Runs in progress keep the plan with which they started."""
    return _edit_benchmark(benchmark_id, body, res, match)


@router.put("/{benchmarkId}", dependencies=ADMIN, responses=CONFLICT)
def replace_benchmark(
    benchmark_id: BenchmarkId, body: BenchmarkBody, res: Res, match: IfMatch
) -> BenchmarkView:
    """Replace all fields; an omitted field gets its default."""
    return _edit_benchmark(benchmark_id, body, res, match)


@router.delete("/{benchmarkId}", status_code=204, dependencies=ADMIN, responses=CONFLICT)
def delete_benchmark(
    benchmark_id: BenchmarkId, res: Res, match: IfMatch, *, cascade: Cascade = False
) -> None:
    """Delete a benchmark without runs; otherwise archive it. Its schedules, alert rules and webhook secrets are
    deleted with `cascade` only.
    """
    with res.db.begin() as session:
        match(queries.get_benchmark(session, benchmark_id, for_update=True).revision)
        service.delete_benchmark(session, benchmark_id, res.clock(), Consent(cascade))


@router.post("/{benchmarkId}/kpis", status_code=201, response_model=KpiView, dependencies=ADMIN)
def create_kpi(benchmark_id: BenchmarkId, body: KpiCreate, res: Res, once: Idempotent) -> Response:
    """Create a KPI; its formula is checked."""
    return once(
        body,
        lambda session: body.confirm_created(
            KpiView.model_validate(kpi_service.create_kpi(session, benchmark_id, body, res.clock()))
        ),
        location=lambda kpi: f"/api/v1/benchmarks/{benchmark_id}/kpis/{kpi.id}",
    )


@router.get("/{benchmarkId}/kpis", dependencies=READ)
def list_kpis(benchmark_id: BenchmarkId, res: Res, page: PageParams) -> Page[KpiView]:
    """List the current KPIs of a benchmark, sorted by name."""
    with res.db.read() as session:
        queries.get_benchmark(session, benchmark_id)
        return queries.list_kpis(session, benchmark_id, page).to_page(KpiView.model_validate)


@router.get("/{benchmarkId}/kpis/{kpiId}", dependencies=READ)
def get_kpi(benchmark_id: BenchmarkId, kpi_id: KpiId, res: Res, tagged: IfNoneMatch) -> KpiView:
    """Show the current revision of a KPI."""
    with res.db.read() as session:
        return tagged(KpiView.model_validate(queries.get_kpi(session, benchmark_id, kpi_id)))


@router.patch("/{benchmarkId}/kpis/{kpiId}", dependencies=ADMIN, responses=CONFLICT)
def change_kpi(
    benchmark_id: BenchmarkId, kpi_id: KpiId, body: KpiPatch, res: Res, match: IfMatch
) -> KpiView:
    """Change the given fields: creates a new revision, the history keeps the old ones."""
    return _edit_kpi(benchmark_id, kpi_id, body, res, match)


@router.put("/{benchmarkId}/kpis/{kpiId}", dependencies=ADMIN, responses=CONFLICT)
def replace_kpi(
    benchmark_id: BenchmarkId, kpi_id: KpiId, body: KpiBody, res: Res, match: IfMatch
) -> KpiView:
    """Replace all fields of a KPI: creates a new revision, the history keeps the old ones."""
    return _edit_kpi(benchmark_id, kpi_id, body, res, match)


@router.delete(
    "/{benchmarkId}/kpis/{kpiId}", status_code=204, dependencies=ADMIN, responses=CONFLICT
)
def delete_kpi(
    benchmark_id: BenchmarkId, kpi_id: KpiId, res: Res, match: IfMatch, *, cascade: Cascade = False
) -> None:
    """Remove a KPI from later runs; its history stays. The alert rules that watch it are deleted with `cascade`
    only.
    """
    with res.db.begin() as session:
        match(queries.lock_kpi(session, benchmark_id, kpi_id).revision)
        kpi_service.delete_kpi(session, benchmark_id, kpi_id, res.clock(), Consent(cascade))


def _edit_benchmark(
    benchmark_id: str, body: BenchmarkBody, res: Resources, match: RevisionCheck
) -> BenchmarkView:
    with res.db.begin() as session:
        benchmark = queries.get_benchmark(session, benchmark_id, for_update=True)
        match(benchmark.revision)
        edit = body.compare_with_view(benchmark_view(session, benchmark))
        benchmark = service.change_benchmark(session, benchmark_id, edit, res.clock())
        return match.etag(benchmark_view(session, benchmark))


def _edit_kpi(
    benchmark_id: str, kpi_id: str, body: KpiBody, res: Resources, match: RevisionCheck
) -> KpiView:
    with res.db.begin() as session:
        kpi = queries.lock_kpi(session, benchmark_id, kpi_id)
        match(kpi.revision)
        edit = body.compare_with_view(KpiView.model_validate(kpi))
        kpi = kpi_service.change_kpi(session, benchmark_id, kpi_id, edit, res.clock())
        return match.etag(KpiView.model_validate(kpi))
