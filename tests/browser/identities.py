"""What names the rows of an answer of the API."""

from typing import Any, Final

# What names a row of the API, the first that it has.
IDENTITIES: Final = (
    "id",
    "runId",
    "traceId",
    "itemId",
    "key",
    "name",
    "revision",
    "signature",
    "version",
    "seq",
    # Of a version of an agent, and of a difference between two runs.
    "lastRunId",
    "after",
)


def list_names(document: Any) -> list[str]:
    """The names of the rows of a list or of a document; those of its parts where it has none."""
    rows = document.get("items", [document])
    return [name for row in rows for name in names_of(row)]


def names_of(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for part in value for name in names_of(part)]
    if not isinstance(value, dict):
        return []
    name = next((str(value[key]) for key in IDENTITIES if value.get(key) is not None), None)
    return [name] if name else [name for part in value.values() for name in names_of(part)]
