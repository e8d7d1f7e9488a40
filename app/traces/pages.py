"""The page of uploaded datasets: the list, and the form that uploads a file."""

from typing import IO, Annotated, Any

from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse
from starlette.datastructures import FormData, UploadFile

from app.access.deps import READ, RUN
from app.core.errors import Conflict, Invalid, TooLarge
from app.core.keyset import MAX_CURSOR, PageQuery
from app.core.resources import Resources
from app.core.web.deps import Res
from app.core.web.form_pages import SEE_OTHER
from app.core.web.forms import check_form, errors_by_field
from app.core.web.pages import path_of, render_page
from app.core.web.routes import Router
from app.core.web.uploads import iter_lines
from app.traces import queries, service
from app.traces.imports import read_results
from app.traces.schemas import UploadForm

router = Router()

NAV = "/datasets"
PAGE_SIZE = 50
# A browser sends the file and its form as one body, which is kept on disk while it is read.
MAX_FORM_BYTES = 256 * 1024**2


@router.get("/datasets", dependencies=READ)
def show_datasets(
    request: Request, res: Res, cursor: Annotated[str, Query(max_length=MAX_CURSOR)] = ""
) -> Response:
    """The uploads, newest first."""
    return _render(request, res, cursor=cursor)


@router.post("/datasets", dependencies=RUN)
async def upload_traces(request: Request, res: Res) -> Response:
    """Store the file of a form: JSON lines, or a result file of a harness."""
    # The role is checked by now: nobody else may fill the disk.
    size = request.headers.get("content-length", "")
    if not size.isdecimal() or int(size[:20]) > MAX_FORM_BYTES:
        raise TooLarge(
            f"a form takes files of up to {MAX_FORM_BYTES // 1024**2} MiB;"
            " upload a larger one with `mosaico datasets upload`"
        )
    async with request.form(max_files=1, max_fields=10) as form:
        return await run_in_threadpool(_upload, request, res, form)


@router.post("/datasets/{datasetId}/delete", dependencies=RUN)
def delete_local_dataset(dataset_id: Annotated[str, Path(alias="datasetId")], res: Res) -> Response:
    """Delete an upload; runs keep their copies."""
    with res.db.begin() as session:
        service.delete_local_dataset(session, dataset_id)
    return RedirectResponse(NAV, SEE_OTHER)


def _upload(request: Request, res: Resources, form: FormData) -> Response:
    file = form.get("file")
    typed = {name: str(form.get(name) or "").strip() for name in ("name", "runName")}
    checked = check_form(
        UploadForm, {**typed, "runName": typed["runName"] or None, "replace": "replace" in form}
    )
    if checked.body is None or not isinstance(file, UploadFile) or not file.filename:
        errors = {**checked.errors}
        if not isinstance(file, UploadFile) or not file.filename:
            errors["file"] = "is missing; choose a file"
        return _render(request, res, typed=typed, errors=errors, status=422)
    try:
        _store(request, res, checked.body, file.filename, file.file, file.size or 0)
    except (Invalid, Conflict) as error:
        errors = {**errors_by_field(error.errors), "file": error.detail}
        return _render(request, res, typed=typed, errors=errors, status=error.status)
    return RedirectResponse(NAV, SEE_OTHER)


def _store(
    request: Request, res: Resources, body: UploadForm, filename: str, file: IO[bytes], size: int
) -> None:
    """Store a file. Raises: `Invalid`, `Conflict`."""
    run_name = body.run_name or filename.rpartition(".")[0] or filename
    lines = iter_lines(file)
    if filename.lower().endswith(".json"):
        recording = read_results(file.read())
        run_name = body.run_name or recording.run_name
        lines = enumerate(recording.lines, start=1)
    with service.encode_traces(lines) as traces, res.db.begin() as session:
        dataset = service.store_local_dataset(
            session, body.name, run_name, traces, size_bytes=size, replace=body.replace
        )
        request.state.created = f"/api/v1/local-datasets{path_of(dataset.id)}"


def _render(
    request: Request,
    res: Resources,
    *,
    cursor: str = "",
    typed: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    with res.db.read() as session:
        page = queries.list_local_datasets(
            session, PageQuery(PAGE_SIZE, cursor or None), name=None, agent_id=None
        )
    values: dict[str, Any] = {"name": "", "runName": "", **(typed or {})}
    return render_page(
        request, "datasets.html", title="Datasets", nav=NAV, status=status,
        api=f"/local-datasets?limit={PAGE_SIZE}", datasets=page.rows, typed=values,
        errors=errors or {}, params=dict(request.query_params), next_cursor=page.next_cursor,
    )  # fmt: skip
