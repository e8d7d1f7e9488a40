"""REST endpoints of uploaded datasets."""

from typing import Annotated, Any

from fastapi import Path, Query, Response

from mosaico.access.deps import READ, RUN
from mosaico.access.idempotency import Idempotent, IdempotentCreate
from mosaico.core.schemas import Identifier, Page, ShortText, view_of_row
from mosaico.core.web.deps import Res
from mosaico.core.web.query_parameters import PageParams
from mosaico.core.web.routes import Router
from mosaico.core.web.uploads import JsonUpload, NdjsonUpload, UploadedBody, iter_lines
from mosaico.traces.execution.items import item_of
from mosaico.traces.producers.harness_results import read_results
from mosaico.traces.reader_versions import READER_PATTERN, parse_reader, reader_of
from mosaico.traces.uploads import queries, service
from mosaico.traces.uploads.schemas import DatasetItemView, LocalDatasetView
from mosaico.traces.uploads.uploaded_traces import UploadedTraces, uploaded_lines

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
    traces = uploaded_lines(iter_lines(upload.file), parse_reader(reader or ""))
    return _store(once, upload, traces, name, run_name, agent_id=agent_id, replace=replace)


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
    with service.reading_alone():
        recording = read_results(upload.file.read())
    traces = uploaded_lines(enumerate(recording.lines, start=1), reader_of("harness"))
    run_name = run_name or recording.run_name
    return _store(once, upload, traces, name, run_name, agent_id=agent_id, replace=replace)


def _store(
    once: IdempotentCreate,
    upload: UploadedBody,
    uploaded: UploadedTraces,
    name: str,
    run_name: str,
    *,
    agent_id: str | None,
    replace: bool,
) -> Response:
    with service.encode_traces(once.resources.db, uploaded) as traces:
        return once(
            upload.sha256,
            lambda session: LocalDatasetView.model_validate(
                service.store_local_dataset(
                    session,
                    name,
                    run_name,
                    traces,
                    agent_id=agent_id,
                    size_bytes=upload.size_bytes,
                    replace=replace,
                    reader=uploaded.reader,
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
