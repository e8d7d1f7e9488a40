"""Reads the items of a dataset for a command or a script: a file, an upload, a Langfuse dataset."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from mosaico.core.console.api_client import ApiClient
from mosaico.core.console.api_responses import JSON
from mosaico.core.console.service import open_api
from mosaico.traces.execution.items import LANGFUSE_PREFIX, item_of_document, items_of, unique_items
from mosaico.traces.files.trace_file import TraceReader, is_file_name
from mosaico.traces.types import DatasetItem
from mosaico.traces.upload_errors import UploadNotFound

UPLOADS_PATH = "/local-datasets"
PAGE_SIZE = 200


def load_items(dataset: str, reader: TraceReader) -> list[DatasetItem]:
    """The items of `langfuse:NAME`, of a file, or of the newest upload of that name.

    Langfuse is read with the keys in the environment, uploads from the service at MOSAICO_URL.
    Raises: `UnusableDataset`, and the errors of files, Langfuse and the service.
    """
    if dataset.startswith(LANGFUSE_PREFIX):
        # The SDK of Langfuse takes long to import.
        from mosaico.harness.langfuse_export import langfuse_project, read_dataset_items

        project = langfuse_project(os.environ)
        rows = read_dataset_items(project, dataset.removeprefix(LANGFUSE_PREFIX))
        return unique_items(map(item_of_document, rows), dataset)
    if is_file_name(dataset):
        with reader.open_items(Path(dataset)) as traces:
            return items_of(traces, dataset)
    with open_api() as api:
        return unique_items(_iter_uploaded(api, dataset), dataset)


def _iter_uploaded(api: ApiClient, name: str) -> Iterator[DatasetItem]:
    uploads = api.page(UPLOADS_PATH, limit=1, name=name)["items"]
    if not uploads:
        raise UploadNotFound(
            f"{name!r} is not a file, and the service has no upload of that name; `mosaico "
            "datasets list` lists the uploads, langfuse:NAME is a Langfuse dataset"
        )
    path = f"{UPLOADS_PATH}/{uploads[0]['id']}/items"
    yield from map(_item_of_view, api.items(path))


def _item_of_view(view: JSON) -> DatasetItem:
    attributes: Mapping[str, str] = view["attributes"]
    return DatasetItem(
        id=view["id"],
        input=view["input"],
        expected_output=view["expectedOutput"],
        tags=tuple(view["tags"]),
        attributes=attributes,
    )
