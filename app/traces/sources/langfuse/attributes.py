"""Attributes of Langfuse traces: session, user, release, version, environment and metadata."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.traces.production import TraceFilters
from app.traces.sources.langfuse.json_fields import get_object, get_text, parse_embedded_json

FIELDS: Final = {
    "userId": "user",
    "sessionId": "session",
    "release": "release",
    "version": "version",
    "environment": "environment",
}
# Written by SDKs into the metadata of every span, or read elsewhere.
_TECHNICAL_KEYS: Final = frozenset(
    {
        *("experiment_name", "experiment_run_name", "dataset_id", "dataset_item_id"),
        *("resourceAttributes", "scope", "attributes", "trial", "tags"),
    }
)


def parse_fields(row: Mapping[str, Any]) -> dict[str, str]:
    """The attributes that an observation or a trace has as fields of its own."""
    return {
        attribute: text
        for name, attribute in FIELDS.items()
        if (text := get_text(row, name)) is not None
    }


def parse_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata as attributes: nested objects get names with dots, lists are left out."""
    own = {name: value for name, value in metadata.items() if name not in _TECHNICAL_KEYS}
    return dict(_flatten("", own))


def has_metadata(row: Mapping[str, Any], expected: Mapping[str, str]) -> bool:
    """Whether the metadata of an observation or a trace has these values, whatever their JSON types."""
    if not expected:
        return True
    attributes = parse_metadata(get_object(row, "metadata"))
    return all(attributes.get(name) == value for name, value in expected.items())


def metadata_conditions(filters: TraceFilters) -> Iterator[dict[str, str]]:
    """Conditions that let every value of `has_metadata` pass, and similar values too."""
    for key, value in filters.metadata.items():
        # Values are stored as JSON or as plain text: `=` would miss one of them, and `contains` a text
        # that JSON escapes.
        if json.dumps(value, ensure_ascii=False) == f'"{value}"':
            yield {
                "type": "stringObject",
                "column": "metadata",
                "key": key,
                "operator": "contains",
                "value": value,
            }


def _flatten(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, raw_value in values.items():
        # Twice: API v4 returns metadata values as JSON in a string, and SDKs write a JSON string.
        value = parse_embedded_json(parse_embedded_json(raw_value))
        match value:
            case dict():
                yield from _flatten(f"{prefix}{name}.", value)
            case bool():
                yield f"{prefix}{name}", str(value).lower()
            case str() | int() | float() if value != "":
                yield f"{prefix}{name}", str(value)
            case _:
                pass
