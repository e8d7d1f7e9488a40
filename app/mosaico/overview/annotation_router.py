"""HTTP routes of annotations."""

from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.orm import Session

from mosaico.access.deps import READ, RUN, get_caller
from mosaico.access.idempotency import Idempotent
from mosaico.annotations import queries, service
from mosaico.annotations.judges import list_judges
from mosaico.annotations.queues import load_queue
from mosaico.annotations.schemas import (
    AnnotationCreate,
    AnnotationFilter,
    AnnotationQueueView,
    AnnotationSummary,
    AnnotationView,
    JudgeView,
    QueueFilter,
    SummaryScope,
)
from mosaico.annotations.summary import summarize
from mosaico.core.keyset import PageQuery, PageRows
from mosaico.core.schemas import Page
from mosaico.core.web.csv_files import CSV_RESPONSE, csv_file, iter_views
from mosaico.core.web.deps import Res
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router
from mosaico.run_store.queries import get_run_with_traces

router = Router(prefix="/annotations", tags=["annotations"])
other_router = Router(tags=["annotations"])

RunId = Annotated[str, Path(alias="runId")]
AnnotationId = Annotated[str, Path(alias="annotationId")]
AnnotationFilters = Annotated[AnnotationFilter, Query()]


@other_router.post(
    "/benchmark-runs/{runId}/annotations",
    status_code=201,
    response_model=AnnotationView,
    dependencies=RUN,
)
def create_annotation(
    run_id: RunId, body: AnnotationCreate, request: Request, once: Idempotent, res: Res
) -> Response:
    """Say whether an answer of a run is right, partly right or wrong, in place of what you said before."""

    def create(session: Session) -> AnnotationView:
        by = get_caller(request).key_id
        annotation = service.save_annotation(session, run_id, body, by, res.clock())
        return queries.annotation_views(session, [annotation])[0]

    return once(body, create, location=_location)


@router.get("", dependencies=READ)
def list_annotations(
    res: Res, page: PageParams, annotation_filter: AnnotationFilters
) -> Page[AnnotationView]:
    """List annotations, newest first."""
    with res.db.read() as session:
        rows = queries.list_annotations(session, page, annotation_filter)
        return Page(items=rows.rows, next_cursor=rows.next_cursor)


@router.get("/summary", dependencies=READ)
def summarize_annotations(res: Res, scope: Annotated[SummaryScope, Query()]) -> AnnotationSummary:
    """What annotators say of a run or of a benchmark, and how far they agree: Cohen's kappa of two, Krippendorff's alpha
    of all, with 95 % intervals. Of a benchmark with more annotations the newest 5,000 count.
    """
    return summarize(res.db, scope)


@router.get("/{annotationId}", dependencies=READ)
def get_annotation(annotation_id: AnnotationId, res: Res) -> AnnotationView:
    """Show one annotation with the name of its annotator."""
    with res.db.read() as session:
        annotation = queries.get_annotation(session, annotation_id)
        return queries.annotation_views(session, [annotation])[0]


@router.delete("/{annotationId}", status_code=204, dependencies=RUN)
def delete_annotation(annotation_id: AnnotationId, request: Request, res: Res) -> None:
    """Delete an annotation of your own; admins delete any."""
    caller = get_caller(request)
    with res.db.begin() as session:
        service.delete_annotation(session, annotation_id, caller.key_id, caller.role)


@router.get(
    ".csv",
    response_class=StreamingResponse,
    responses=CSV_RESPONSE,
    dependencies=READ,
)
def export_annotations(res: Res, annotation_filter: AnnotationFilters) -> StreamingResponse:
    """Annotations as CSV with the filters of the list, newest first; at most 10,000."""

    def read_page(session: Session, page: PageQuery) -> PageRows[AnnotationView]:
        return queries.list_annotations(session, page, annotation_filter)

    return csv_file(iter_views(res.db, AnnotationView, read_page), "annotations.csv")


@other_router.get("/benchmark-runs/{runId}/annotation-queue", dependencies=READ)
def get_annotation_queue(
    run_id: RunId, request: Request, res: Res, queue_filter: Annotated[QueueFilter, Query()]
) -> AnnotationQueueView:
    """The answers of a run that a queue asks to judge, in its order, and what you said of them. The same query selects
    the same answers for everybody, but for `new`.
    """
    with res.db.read() as session:
        run = get_run_with_traces(session, run_id)
        return load_queue(session, run, queue_filter, get_caller(request).key_id)


@other_router.get("/benchmarks/{benchmarkId}/judges", dependencies=READ)
def compare_judges(
    benchmark_id: Annotated[str, Path(alias="benchmarkId")],
    res: Res,
    min_agreement: Annotated[
        float | None,
        Query(
            alias="minAgreement",
            ge=0,
            le=1,
            description="Mark the judges that agree with people on a smaller share of the answers.",
        ),
    ] = None,
) -> Page[JudgeView]:
    """Each judge of the newest run of a benchmark against the annotations of its newest 20 annotated runs: agreement, bias,
    drift since the run before, and the mean of its scores, corrected by the annotations.
    """
    return Page(items=list_judges(res.db, benchmark_id, min_agreement))


def _location(annotation: AnnotationView) -> str:
    return f"/api/v1/annotations{path_of(annotation.id)}"
