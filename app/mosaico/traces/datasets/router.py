"""REST endpoints of datasets: their versions, items, edits and files."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from mosaico.access.deps import READ, RUN, get_caller
from mosaico.access.idempotency import Idempotent
from mosaico.core.problem_documents import CONFLICT, UnsupportedMediaType
from mosaico.core.resources import Resources
from mosaico.core.schemas import Page, ShortText
from mosaico.core.web.deps import Res
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.request_body import read_content_type
from mosaico.core.web.routes import Router
from mosaico.core.web.uploads import (
    DOCUMENT_BYTES,
    MEMORY_BYTES,
    NDJSON_TYPES,
    UploadedBody,
    receive_body,
)
from mosaico.traces.datasets import queries, service
from mosaico.traces.datasets.items_file import (
    ItemsFormat,
    item_of_content,
    read_items_file,
    write_items,
)
from mosaico.traces.datasets.schemas import (
    DatasetCreate,
    DatasetEdit,
    DatasetFilter,
    DatasetItemStateView,
    DatasetVersionView,
    DatasetView,
    EditResult,
    ItemId,
)
from mosaico.traces.datasets.service import ItemEdit

router = Router(prefix="/datasets", tags=["datasets"])

MEDIA_TYPES: Final = {"csv": "text/csv", "jsonl": "application/x-ndjson"}
_EXAMPLE: Final = "id,input,expectedOutput,expectedAny,expectedAll,tags,attributes\nq1,1+1?,2,,,,\n"
_FILE_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "text/csv": {"schema": {"type": "string"}, "example": _EXAMPLE},
            "application/x-ndjson": {
                "schema": {"type": "string"},
                "example": '{"id": "q1", "input": "1+1?", "expectedOutput": "2"}\n',
            },
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary"},
                "example": _EXAMPLE,
            },
        },
    }
}
_FILE_RESPONSE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The items, a row or a line each.",
        "content": {name: {"schema": {"type": "string"}} for name in MEDIA_TYPES.values()},
    }
}

DatasetId = Annotated[str, Path(alias="setId")]
Version = Annotated[int | None, Query(ge=0, description="Version; the newest one without it.")]


async def receive_items(request: Request) -> AsyncIterator[UploadedBody]:
    """Receive a file of items of up to 64 MiB. Raises: `UnsupportedMediaType`, `TooLarge`."""
    if read_content_type(request) not in NDJSON_TYPES | {"text/csv"}:
        raise UnsupportedMediaType("send the items as text/csv or application/x-ndjson")
    with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as file:
        yield await receive_body(request, file, DOCUMENT_BYTES)


@router.get("", dependencies=READ)
def list_datasets(
    res: Res, page: PageParams, dataset_filter: Annotated[DatasetFilter, Query()]
) -> Page[DatasetView]:
    """List the datasets whose items live here, newest first."""
    with res.db.read() as session:
        rows = queries.list_datasets(session, page, dataset_filter)
        return rows.to_page(DatasetView.model_validate)


@router.post("", status_code=201, response_model=DatasetView, dependencies=RUN, responses=CONFLICT)
def create_dataset(body: DatasetCreate, once: Idempotent) -> Response:
    """Create a dataset without items."""
    return once(
        body,
        lambda session: DatasetView.model_validate(service.create_dataset(session, body.name)),
    )


@router.post(
    "/import",
    status_code=201,
    response_model=EditResult,
    openapi_extra=_FILE_BODY,
    dependencies=RUN,
    responses=CONFLICT,
)
def import_items(
    upload: Annotated[UploadedBody, Depends(receive_items)],
    request: Request,
    once: Idempotent,
    name: Annotated[ShortText, Query(description="Name of the dataset; a new one is created.")],
    base_version: Annotated[
        int, Query(alias="baseVersion", ge=0, description="Version that the file was made from.")
    ] = 0,
    replace: Annotated[
        bool, Query(description="Whether to retire the items that the file does not have.")
    ] = False,
    note: Annotated[ShortText | None, Query(description="Reason, stored with the version.")] = None,
) -> Response:
    """Add and change items from a file, CSV or JSON Lines: one new version. An item of an export replaces the stored one; of
    other files it keeps what the file does not say.
    """
    file = read_items_file("the file", upload.file)
    edit = ItemEdit(
        base_version=base_version,
        items=file.items,
        partial_ids=file.partial_ids,
        replaces_all=replace,
        note=note,
    )
    by, now = get_caller(request).key_id, once.resources.clock()
    return once(
        upload.sha256,
        lambda session: service.edit_dataset(
            session, service.find_or_create(session, name).id, edit, by=by, now=now
        ),
        location=version_path,
    )


@router.get("/{setId}", dependencies=READ)
def get_dataset(dataset_id: DatasetId, res: Res) -> DatasetView:
    """Get a dataset with its newest version."""
    with res.db.read() as session:
        return DatasetView.model_validate(queries.get_dataset(session, dataset_id))


@router.get("/{setId}/versions", dependencies=READ)
def list_versions(dataset_id: DatasetId, res: Res, page: PageParams) -> Page[DatasetVersionView]:
    """List the versions of a dataset, newest first."""
    with res.db.read() as session:
        dataset = queries.get_dataset(session, dataset_id)
        rows = queries.list_versions(session, dataset.id, page)
        return Page(items=rows.rows, next_cursor=rows.next_cursor)


@router.get("/{setId}/versions/{version}", dependencies=READ)
def get_version(
    dataset_id: DatasetId, version: Annotated[int, Path(ge=0)], res: Res
) -> DatasetVersionView:
    """Get one version: what it changed, by whom and why."""
    with res.db.read() as session:
        dataset = queries.get_dataset(session, dataset_id)
        return queries.get_version(session, dataset.id, version)


@router.post(
    "/{setId}/versions",
    status_code=201,
    response_model=EditResult,
    dependencies=RUN,
    responses=CONFLICT,
)
def edit_dataset(
    dataset_id: DatasetId, body: DatasetEdit, request: Request, once: Idempotent
) -> Response:
    """Add, change and retire items: one new version. An edit without a difference makes none."""
    edit = ItemEdit(
        base_version=body.base_version,
        items=[*map(item_of_content, body.items)],
        retired_ids=body.retire,
        note=body.note,
    )
    by, now = get_caller(request).key_id, once.resources.clock()
    return once(
        body,
        lambda session: service.edit_dataset(session, dataset_id, edit, by=by, now=now),
        location=version_path,
    )


def version_path(result: EditResult) -> str:
    """The path of the version after an edit."""
    return f"/api/v1/datasets{path_of(result.dataset_id)}/versions/{result.version}"


@router.get("/{setId}/items", dependencies=READ)
def list_items(
    dataset_id: DatasetId, res: Res, page: PageParams, version: Version = None
) -> Page[DatasetItemStateView]:
    """List the items of a version in their order."""
    with res.db.read() as session:
        dataset = queries.get_dataset(session, dataset_id)
        chosen = queries.choose_version(dataset, version)
        rows = queries.list_items_page(session, dataset, chosen, page)
        return rows.to_page(DatasetItemStateView.model_validate)


@router.get("/{setId}/item-history", dependencies=READ)
def list_item_states(
    dataset_id: DatasetId,
    res: Res,
    page: PageParams,
    item_id: Annotated[ItemId, Query(alias="itemId", description="ID of the item.")],
) -> Page[DatasetItemStateView]:
    """List what the versions of a dataset made of an item, newest first."""
    with res.db.read() as session:
        dataset = queries.get_dataset(session, dataset_id)
        queries.get_item(session, dataset, item_id, dataset.version)
        rows = queries.list_item_states(session, dataset.id, item_id, page)
        return rows.to_page(DatasetItemStateView.model_validate)


@router.get(
    "/{setId}/export",
    response_class=StreamingResponse,
    responses=_FILE_RESPONSE,
    dependencies=READ,
)
def export_items(
    dataset_id: DatasetId,
    res: Res,
    version: Version = None,
    file_format: Annotated[
        ItemsFormat, Query(alias="format", description="Format of the file.")
    ] = "csv",
) -> StreamingResponse:
    """The items of a version as a file, which an import reads as the same items."""
    with res.db.read() as session:
        dataset = queries.get_dataset(session, dataset_id)
        chosen = queries.choose_version(dataset, version)
    headers = {"Content-Disposition": f'attachment; filename="items-v{chosen}.{file_format}"'}
    return StreamingResponse(
        _iter_export(res, dataset.id, chosen, file_format),
        media_type=MEDIA_TYPES[file_format],
        headers=headers,
    )


def _iter_export(
    res: Resources, dataset_id: str, version: int, file_format: ItemsFormat
) -> Iterator[str]:
    rows = queries.iter_items_of(res.db, dataset_id, version)
    items = (queries.item_of_state(row, is_tagged=False) for row in rows if row.input)
    return write_items(items, file_format)
