"""Wire schemas of uploaded datasets."""

from datetime import datetime

from mosaico.core.schemas import Identifier, ShortText, StoredText, WireModel


class UploadForm(WireModel):
    """The fields of an upload besides its file; without a run name that of the file is used."""

    name: ShortText
    run_name: ShortText | None = None
    agent_id: Identifier | None = None
    replace: bool = False


class LocalDatasetView(WireModel):
    """The uploaded traces of one run of a dataset, by the agent `agentId` if the upload named it."""

    id: str
    name: str
    run_name: str
    agent_id: str | None
    trace_count: int
    size_bytes: int
    ignored_keys: list[str]
    columns: dict[str, StoredText]
    redacted_texts: int
    texts_removed_at: datetime | None
    created_at: datetime


class DatasetItemView(WireModel):
    """An item of a dataset: what an agent is asked, the expected answer, and the one in the file."""

    id: StoredText
    input: StoredText
    expected_output: StoredText | None
    output: StoredText | None
    tags: list[StoredText]
    attributes: dict[str, StoredText]
