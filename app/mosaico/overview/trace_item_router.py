"""The REST endpoints and the form that make an item of a trace."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Path, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import RUN, get_caller
from mosaico.access.idempotency import Idempotent
from mosaico.core.errors import Invalid
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.sent_fields import SentForm, check_form
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import build_url, see_other
from mosaico.core.web.routes import Router
from mosaico.overview.trace_items import (
    TraceOrigin,
    add_item_from_trace,
    find_trace_of_run,
    find_trace_of_upload,
)
from mosaico.traces.datasets.router import version_path
from mosaico.traces.datasets.schemas import EditResult, TraceItemCreate

router = Router(tags=["datasets"])
form_router = Router()

_FIELDS = ("dataset", "traceId", "itemId", "expectedOutput", "note")
FindTrace = Callable[[Session, str, str], TraceOrigin]


@router.post(
    "/benchmark-runs/{runId}/dataset-items",
    status_code=201,
    response_model=EditResult,
    dependencies=RUN,
    responses=CONFLICT,
)
def create_item_from_run(
    run_id: Annotated[str, Path(alias="runId")],
    body: TraceItemCreate,
    request: Request,
    once: Idempotent,
) -> Response:
    """Make a trace of a run an item of a dataset. `expectedOutput` is the corrected answer, otherwise that of the trace
    counts.
    """
    return _create(find_trace_of_run, run_id, body, request, once)


@router.post(
    "/local-datasets/{datasetId}/dataset-items",
    status_code=201,
    response_model=EditResult,
    dependencies=RUN,
    responses=CONFLICT,
)
def create_item_from_upload(
    upload_id: Annotated[str, Path(alias="datasetId")],
    body: TraceItemCreate,
    request: Request,
    once: Idempotent,
) -> Response:
    """Make a trace of an upload an item of a dataset, as from a run."""
    return _create(find_trace_of_upload, upload_id, body, request, once)


@form_router.post("/datasets/from-trace", dependencies=RUN)
def create_trace_item(request: Request, form: SentForm, res: Res) -> Response:
    """Make an item of a trace, and show it in its dataset."""
    checked = check_form(TraceItemCreate, {name: form.text(name) or None for name in _FIELDS})
    if checked.body is None:
        name, error = next(iter(checked.errors.items()))
        raise Invalid(f"{name or 'the form'} {error}")
    body, run_id = checked.body, form.text("runId")
    find, source_id = (
        (find_trace_of_run, run_id) if run_id else (find_trace_of_upload, form.text("uploadId"))
    )
    with res.db.begin() as session:
        origin = find(session, source_id, body.trace_id)
        by = get_caller(request).key_id
        result = add_item_from_trace(session, origin, body, by=by, now=res.clock())
    path = path_of("datasets", result.dataset_id, "items")
    return see_other(build_url(path, {"version": str(result.version)}))


def _create(
    find: FindTrace, source_id: str, body: TraceItemCreate, request: Request, once: Idempotent
) -> Response:
    by, now = get_caller(request).key_id, once.resources.clock()

    def create(session: Session) -> EditResult:
        origin = find(session, source_id, body.trace_id)
        return add_item_from_trace(session, origin, body, by=by, now=now)

    return once(body, create, location=version_path)
