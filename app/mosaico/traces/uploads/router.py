"""REST endpoints of uploaded datasets."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Path, Query, Response

from mosaico.access.deps import READ, RUN
from mosaico.access.idempotency import Idempotent, IdempotentCreate
from mosaico.core.schemas import Identifier, Page, ShortText, view_of_row
from mosaico.core.web.deps import Res
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router
from mosaico.core.web.uploads import JsonUpload, NdjsonUpload, UploadedBody
from mosaico.traces.execution.items import item_of
from mosaico.traces.files.configured_limits import read_limits
from mosaico.traces.reader_versions import READER_PATTERN
from mosaico.traces.uploads import queries, service
from mosaico.traces.uploads.encoding import read_upload
from mosaico.traces.uploads.schemas import DatasetItemView, LocalDatasetView
from mosaico.traces.uploads.uploaded_traces import (
    UploadedTraces,
    read_harness_results,
    read_lines,
)

router = Router(prefix="/local-datasets", tags=["local datasets"])

DatasetId = Annotated[str, Path(alias="datasetId")]

EXAMPLE = '{"traceId": "t-1", "input": "1+1?", "expectedOutput": "2", "output": "two"}\n'
NDJSON_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-ndjson": {"schema": {"type": "string"}, "example": EXAMPLE},
            # Generated clients know this type, and send a file of any size as it is.
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary"},
                "example": EXAMPLE,
            },
        },
    }
}

DatasetName = Annotated[ShortText, Query(description="Name of the dataset.")]
UploadedBy = Annotated[
    Identifier | None,
    Query(
        alias="agentId",
        description="Agent that produced the traces: its runs read its newest upload.",
    ),
]
Replace = Annotated[bool, Query(description="Replace an earlier upload of the same run and agent.")]
FileReader = Annotated[
    str | None,
    Query(
        pattern=READER_PATTERN,
        description="Reader of the file that the traces come from, with its versions: `csv@1.1`.",
    ),
]

RESULT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


@router.post(
    "",
    status_code=201,
    response_model=LocalDatasetView,
    openapi_extra=NDJSON_BODY,
    dependencies=RUN,
)
def upload_traces(
    upload: NdjsonUpload,
    once: Idempotent,
    name: DatasetName,
    run_name: Annotated[ShortText, Query(alias="runName", description="Name of the run.")],
    agent_id: UploadedBy = None,
    replace: Replace = False,
    reader: FileReader = None,
) -> Response:
    """Upload the traces of one run, one JSON object per line. An invalid line rejects the upload."""
    return _store(
        once, upload, name, run_name, read_lines, reader or "", agent_id=agent_id, replace=replace
    )


@router.post(
    "/import",
    status_code=201,
    response_model=LocalDatasetView,
    openapi_extra=RESULT_BODY,
    dependencies=RUN,
)
def import_results(
    upload: JsonUpload,
    once: Idempotent,
    name: DatasetName,
    run_name: Annotated[
        ShortText | None,
        Query(alias="runName", description="Name of the run; default: model and time."),
    ] = None,
    agent_id: UploadedBy = None,
    replace: Replace = False,
) -> Response:
    """Import a result file of bashkit-eval or ot-bench as the traces of one run."""
    return _store(
        once, upload, name, run_name, read_harness_results, agent_id=agent_id, replace=replace
    )


def _store(
    once: IdempotentCreate,
    upload: UploadedBody,
    name: str,
    run_name: str | None,
    read: Callable[..., UploadedTraces],
    *arguments: str,
    agent_id: str | None,
    replace: bool,
) -> Response:
    max_values = read_limits(once.resources.options).values
    with read_upload(once.resources, upload.file, name, read, *arguments, max_values) as traces:
        return once(
            upload.sha256,
            lambda session: LocalDatasetView.model_validate(
                service.store_local_dataset(
                    session,
                    name,
                    run_name or traces.summary.run_name,
                    traces,
                    agent_id=agent_id,
                    size_bytes=upload.size_bytes,
                    replace=replace,
                )
            ),
            location=lambda dataset: f"/api/v1/local-datasets/{dataset.id}",
        )


@router.get("", dependencies=READ)
def list_local_datasets(
    res: Res,
    page: PageParams,
    upload_filter: Annotated[queries.UploadFilter, Query()],
) -> Page[LocalDatasetView]:
    """List the uploads, newest first."""
    with res.db.read() as session:
        rows = queries.list_local_datasets(session, page, upload_filter)
        return rows.to_page(LocalDatasetView.model_validate)


@router.get("/{datasetId}", dependencies=READ)
def get_local_dataset(dataset_id: DatasetId, res: Res) -> LocalDatasetView:
    """Get an upload."""
    with res.db.read() as session:
        return LocalDatasetView.model_validate(queries.get_local_dataset(session, dataset_id))


@router.get("/{datasetId}/items", dependencies=READ)
def list_dataset_items(dataset_id: DatasetId, res: Res, page: PageParams) -> Page[DatasetItemView]:
    """List the items of an upload, in its order; traces without an input are left out."""
    with res.db.read() as session:
        traces = queries.list_uploaded_traces(session, dataset_id, page)
    items = [
        view_of_row(DatasetItemView, item, output=trace.output)
        for trace in traces.rows
        if (item := item_of(trace))
    ]
    return Page(items=items, next_cursor=traces.next_cursor)


@router.delete("/{datasetId}", status_code=204, dependencies=RUN)
def delete_local_dataset(dataset_id: DatasetId, res: Res) -> None:
    """Delete an upload. Runs that read it keep its traces."""
    with res.db.begin() as session:
        service.delete_local_dataset(session, dataset_id)
