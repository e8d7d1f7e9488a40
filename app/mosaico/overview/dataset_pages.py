"""Pages of uploaded datasets: the list, the form that uploads a file, and one upload with its traces."""

from collections.abc import Mapping
from typing import IO, Annotated, Final

from fastapi import Depends, Request, Response
from fastapi import Path as PathParameter
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, QueryParams, UploadFile

from mosaico.access.deps import READ, RUN
from mosaico.agents.queries import get_agent, list_agent_names
from mosaico.core.errors import Conflict, Invalid, TooLarge, without_request
from mosaico.core.keyset import PageQuery
from mosaico.core.parameter_names import UserInterface, messages_for
from mosaico.core.resources import Resources
from mosaico.core.web.deps import Res
from mosaico.core.web.forms.page_filters import PageFilters, SentFilters
from mosaico.core.web.forms.sent_fields import check_form, errors_by_field
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import DEFAULT_ZONE, Crumb, list_in_api, render_page, see_other
from mosaico.core.web.query_parameters import ListQuery
from mosaico.core.web.routes import Router
from mosaico.traces.datasets.queries import list_datasets
from mosaico.traces.datasets.schemas import DatasetFilter
from mosaico.traces.files.column_mapping import InvalidMapping, parse_mapping
from mosaico.traces.files.configured_limits import read_limits
from mosaico.traces.files.read_options import (
    InvalidInfraError,
    InvalidLabels,
    ReadLimits,
    ReadOptions,
    parse_infra_errors,
    parse_labels,
)
from mosaico.traces.references import ListRule
from mosaico.traces.upload_errors import FileReaderBusy, UploadReaderLost
from mosaico.traces.uploads import queries, service
from mosaico.traces.uploads.encoding import read_upload
from mosaico.traces.uploads.queries import UploadFilter
from mosaico.traces.uploads.schemas import UploadForm
from mosaico.traces.uploads.uploaded_traces import read_any_file

router = Router()

DatasetId = Annotated[str, PathParameter(alias="datasetId")]
PAGE_FILTERS: Final = PageFilters(UploadFilter, "name agent")
UploadFilters = Annotated[SentFilters[UploadFilter], Depends(PAGE_FILTERS)]

NAV = "/datasets"
FIRST_PAGE: Final = PageQuery()
SHOWN_SETS: Final = PageQuery(50)
TYPED_FIELDS: Final = (
    *(
        "name",
        "runName",
        "agentId",
        "columns",
        "expected",
        "labels",
        "sheet",
        "encoding",
        "infraErrors",
    ),
    *("stripThinking", "stripFences"),
)
# The field of the form that an error of an option belongs to.
OPTION_ERRORS: Final[Mapping[type[Invalid], str]] = {
    InvalidMapping: "columns",
    InvalidLabels: "labels",
    InvalidInfraError: "infraErrors",
}
EXPECTED_CHOICES: Final = (
    ("", "ask"),
    (ListRule.ANY, "one of them is enough"),
    (ListRule.ALL, "an answer must fit all of them"),
)
# A browser sends the file and its form as one body, which is kept on disk while it is read.
MAX_FORM_BYTES = 256 * 1024**2


@router.get("/datasets", dependencies=READ)
def show_datasets(request: Request, res: Res, query: ListQuery, filters: UploadFilters) -> Response:
    """The uploads, newest first."""
    return _render(request, res, query, filters)


@router.post("/datasets", dependencies=RUN)
async def upload_traces(request: Request, res: Res) -> Response:
    """Store the file of a form, in any format of `docs/import.md`, and show its traces."""
    # The role is checked by now: nobody else may fill the disk.
    size = request.headers.get("content-length", "")
    if not size.isdecimal() or int(size[:20]) > MAX_FORM_BYTES:
        raise TooLarge(
            f"a form accepts files of up to {MAX_FORM_BYTES // 1024**2} MiB; upload a larger one "
            "with `mosaico datasets upload`"
        )
    async with request.form(max_files=1, max_fields=20) as form:
        return await run_in_threadpool(_upload, request, res, form)


@router.get("/datasets/{datasetId}", dependencies=READ)
def show_dataset(
    request: Request,
    dataset_id: DatasetId,
    res: Res,
    query: ListQuery,
) -> Response:
    """Show one upload and its traces, as they were read from the file."""
    with res.db.read() as session:
        dataset = queries.get_local_dataset(session, dataset_id)
        page = queries.list_uploaded_traces(session, dataset_id, query)
        agent = get_agent(session, dataset.agent_id).name if dataset.agent_id else ""
    return render_page(
        request, "dataset.html", title=f"{dataset.name}, {dataset.run_name}", nav=NAV,
        api=list_in_api(request, f"/local-datasets{path_of(dataset_id)}/items"),
        api_parts={"upload": path_of("local-datasets", dataset_id)}, steps=(Crumb("Datasets", NAV),),
        dataset=dataset, agent=agent, traces=page.rows,
        next_cursor=page.next_cursor,
    )  # fmt: skip


@router.post("/datasets/{datasetId}/delete", dependencies=RUN)
def delete_local_dataset(dataset_id: DatasetId, res: Res) -> Response:
    """Delete an upload; runs keep its traces."""
    with res.db.begin() as session:
        service.delete_local_dataset(session, dataset_id)
    return see_other(NAV)


def _upload(request: Request, res: Resources, form: FormData) -> Response:
    file = form.get("file")
    typed = {name: str(form.get(name) or "").strip() for name in TYPED_FIELDS}
    checked = check_form(
        UploadForm,
        {
            "name": typed["name"],
            "runName": typed["runName"] or None,
            "agentId": typed["agentId"] or None,
            "replace": "replace" in form,
        },
    )
    if checked.body is None or not isinstance(file, UploadFile) or not file.filename:
        errors = {**checked.errors}
        if not isinstance(file, UploadFile) or not file.filename:
            errors["file"] = "is missing; choose a file"
        return _render(request, res, typed=typed, errors=errors, status=422)
    try:
        with messages_for(UserInterface.UPLOAD_FORM):
            options = _read_options(typed, read_limits(res.options))
            dataset_id = store_file(
                request, res, checked.body, file.filename, file.file, file.size or 0, options
            )
    except (*OPTION_ERRORS,) as error:
        errors = {OPTION_ERRORS[type(error)]: error.detail}
        return _render(request, res, typed=typed, errors=errors, status=error.status)
    except (Invalid, Conflict, TooLarge, FileReaderBusy, UploadReaderLost) as error:
        errors = {**errors_by_field(error.errors), "file": without_request(error.detail)}
        return _render(request, res, typed=typed, errors=errors, status=error.status)
    return see_other(path_of("datasets", dataset_id))


def _read_options(typed: Mapping[str, str], limits: ReadLimits) -> ReadOptions:
    """How to read the file, as the form says. Raises: `InvalidMapping`, `InvalidLabels`, `InvalidInfraError`."""
    return ReadOptions(
        mapping=parse_mapping([typed["columns"]]),
        expected=ListRule(typed["expected"]) if typed["expected"] in {*ListRule} else None,
        labels=parse_labels(filter(None, map(str.strip, typed["labels"].split(";")))),
        sheet=typed["sheet"] or None,
        encoding=typed["encoding"] or None,
        infra_errors=parse_infra_errors(
            filter(None, map(str.strip, typed["infraErrors"].splitlines()))
        ),
        strip_thinking=bool(typed["stripThinking"]),
        strip_fences=bool(typed["stripFences"]),
        limits=limits,
    )


def store_file(
    request: Request,
    res: Resources,
    body: UploadForm,
    filename: str,
    file: IO[bytes],
    size: int,
    options: ReadOptions,
) -> str:
    """Store a file; returns the ID of the upload. Raises: `Invalid`, `Conflict`, `TooLarge`."""
    with (
        read_upload(res, file, body.name, read_any_file, filename, options) as traces,
        res.db.begin() as session,
    ):
        dataset = service.store_local_dataset(
            session, body.name, body.run_name or traces.summary.run_name, traces,
            agent_id=body.agent_id, size_bytes=size, replace=body.replace,
        )  # fmt: skip
        request.state.created = f"/api/v1/local-datasets{path_of(dataset.id)}"
        return dataset.id


def _render(
    request: Request,
    res: Resources,
    query: PageQuery = FIRST_PAGE,
    filters: SentFilters[UploadFilter] | None = None,
    *,
    typed: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    # The address of a form that was sent has no filters.
    filters = filters or PAGE_FILTERS.read(QueryParams(), DEFAULT_ZONE)
    with res.db.read() as session:
        page = queries.list_local_datasets(session, query, filters.of_list)
        agents = list_agent_names(session)
        sets = list_datasets(session, SHOWN_SETS, DatasetFilter())
    return render_page(
        request, "datasets.html", title="Datasets", nav=NAV, status=status,
        api=list_in_api(request, "/local-datasets", **filters.in_api), datasets=page.rows,
        api_parts={"sets": "/datasets"}, sets=sets.rows, has_more_sets=sets.next_cursor is not None,
        typed={**dict.fromkeys(TYPED_FIELDS, ""), **(typed or {})}, agents=agents.choices(("", "any")),
        expected_choices=EXPECTED_CHOICES,
        options_are_open=any((typed or {}).get(name) for name in TYPED_FIELDS[4:]),
        errors=errors or {}, filters=filters.fields, names={"agent": agents.choices()},
        next_cursor=page.next_cursor,
    )  # fmt: skip
