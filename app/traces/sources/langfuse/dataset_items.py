"""The items of a Langfuse dataset, for an agent that is run over them."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from app.core.http.throttle import CancelToken
from app.core.resources import Resources
from app.traces.execution.items import DatasetItem, item_of_document
from app.traces.registry import TraceQuery
from app.traces.sources.langfuse.catalog import (
    LISTING_POLICY,
    find_dataset,
    missing_dataset_ref,
    translate_errors,
)
from app.traces.sources.langfuse.client import Parameters, open_client, require_credentials
from app.traces.sources.langfuse.pagination import fetch_page_in_parts, iter_pages

ITEMS_PER_PAGE: Final = 50
ACTIVE: Final = "ACTIVE"
FIELDS: Final = ("id", "input", "expectedOutput", "metadata", "status")


def list_items(resources: Resources, query: TraceQuery) -> Iterator[DatasetItem]:
    """The active items of the query's dataset. Raises: `CollectionFailed` with its codes."""
    name = query.dataset_ref
    if name is None:
        raise missing_dataset_ref()
    credentials = require_credentials(query.url, query.public_key, query.secret_key)
    with (
        open_client(
            resources, credentials, pause=CancelToken().pause, policy=LISTING_POLICY
        ) as client,
        translate_errors(),
    ):
        find_dataset(client, name)
        parameters: Parameters = {"datasetName": name, "limit": ITEMS_PER_PAGE}
        fetch = partial(fetch_page_in_parts, client, "/dataset-items", parameters, fields=FIELDS)
        for page in iter_pages(fetch, limit=ITEMS_PER_PAGE, rows_name="items of a dataset"):
            for row in page.rows:
                if row.get("status") in (None, ACTIVE):
                    yield item_of_document(row)
