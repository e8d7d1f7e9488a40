"""The REST endpoint and the form that make an item of a trace."""

from fastapi import Request, Response

from mosaico.access.deps import RUN, get_caller
from mosaico.access.idempotency import Idempotent
from mosaico.core.errors import Invalid
from mosaico.core.problem_documents import CONFLICT
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.sent_fields import SentForm, check_form
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import build_url, see_other
from mosaico.core.web.routes import Router
from mosaico.overview.trace_items import add_item_from_trace
from mosaico.traces.datasets.router import version_path
from mosaico.traces.datasets.schemas import EditResult, TraceItemCreate

router = Router(prefix="/datasets", tags=["datasets"])
form_router = Router()

_FIELDS = ("dataset", "runId", "uploadId", "traceId", "itemId", "expectedOutput", "note")


@router.post(
    "/from-trace", status_code=201, response_model=EditResult, dependencies=RUN, responses=CONFLICT
)
def create_trace_item(body: TraceItemCreate, request: Request, once: Idempotent) -> Response:
    """Make an item of a trace of a run or of an upload. `expectedOutput` is the corrected answer, otherwise that of the
    trace counts.
    """
    by, now = get_caller(request).key_id, once.resources.clock()
    return once(
        body,
        lambda session: add_item_from_trace(session, body, by=by, now=now),
        location=version_path,
    )


@form_router.post("/datasets/from-trace", dependencies=RUN)
def create_trace_item_by_form(request: Request, form: SentForm, res: Res) -> Response:
    """Make an item of a trace, and show it in its dataset."""
    checked = check_form(TraceItemCreate, {name: form.text(name) or None for name in _FIELDS})
    if checked.body is None:
        name, error = next(iter(checked.errors.items()))
        raise Invalid(f"{name or 'the form'} {error}")
    with res.db.begin() as session:
        result = add_item_from_trace(
            session, checked.body, by=get_caller(request).key_id, now=res.clock()
        )
    path = path_of("datasets", result.dataset_id, "items")
    return see_other(build_url(path, {"version": str(result.version)}))
