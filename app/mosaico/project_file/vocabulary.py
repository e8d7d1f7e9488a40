"""The words of a file and of the API for the same fields: views as fields of a file, fields of a file as bodies. Pure."""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from pydantic_core import to_jsonable_python

from mosaico.core.edits import is_same_json
from mosaico.core.ids import is_identifier
from mosaico.project_file.kinds import (
    BENCHMARK_SECTIONS,
    FileObject,
    ObjectKey,
    ObjectKind,
    ProjectFile,
)
from mosaico.project_file.schema import entry_model

Fields: TypeAlias = Mapping[str, Any]
JSON: TypeAlias = dict[str, Any]

PATHS: Final[Mapping[ObjectKind, str]] = {
    ObjectKind.ENDPOINT: "/endpoints",
    ObjectKind.AGENT: "/agents",
    ObjectKind.BENCHMARK: "/benchmarks",
    ObjectKind.KPI: "/benchmarks/{benchmark}/kpis",
    ObjectKind.RULE: "/alert-configs",
    ObjectKind.SCHEDULE: "/schedule-configs",
}
"""The collection of each kind in the API."""

ACTIVE: Final[Mapping[ObjectKind, JSON]] = {
    ObjectKind.AGENT: {"archived": False},
    ObjectKind.BENCHMARK: {"archived": False},
    ObjectKind.RULE: {"enabled": True},
    ObjectKind.SCHEDULE: {"enabled": True},
}
"""The field that says that an object is in use; an object of a file is, unless the file says otherwise."""

PRUNED: Final[Mapping[ObjectKind, JSON]] = {
    **{kind: {name: not value for name, value in field.items()} for kind, field in ACTIVE.items()},
    ObjectKind.ENDPOINT: {"dailySummary": False},
}
"""The field that archives, disables or stops an object. A KPI has none: later runs do not have it."""

IDENTITY: Final[Mapping[ObjectKind, frozenset[str]]] = {
    ObjectKind.ENDPOINT: frozenset({"channel", "recipient"})
}
"""The fields that are the object, whatever its name is: whoever writes the same ones has the same object."""

# Of the view of a secret, which says only whether there is one.
_HAS_KEY: Final = "secretSet"
_MAX_STORED_CHARS: Final = 2000
# The cost of a guess at a secret whose digest somebody has read: 20 ms.
_SCRYPT_COST: Final = 2**13


@cache
def editable_fields(kind: ObjectKind) -> tuple[str, ...]:
    """The fields of a kind in a file, without the objects that belong to it."""
    fields = entry_model(kind).model_fields
    return tuple(
        field.alias or name
        for name, field in fields.items()
        if name not in BENCHMARK_SECTIONS and name != "endpoints"
    )


@cache
def default_of(kind: ObjectKind, name: str) -> Any:
    """What the service has for a field that a body leaves out."""
    fields = {field.alias or key: field for key, field in entry_model(kind).model_fields.items()}
    field = fields.get(name)
    if field is None or field.is_required():
        return None
    return to_jsonable_python(field.get_default(call_default_factory=True), by_alias=True)


def chosen_id(key: ObjectKey) -> str | None:
    """The ID of a new agent or benchmark whose name can be one; None where the ID is generated."""
    has_name_as_id = key.kind in (ObjectKind.AGENT, ObjectKind.BENCHMARK)
    return key.name if has_name_as_id and is_identifier(key.name) else None


def wanted_fields(content: ProjectFile, item: FileObject) -> JSON:
    """The fields of an object of a file that the service should have, with names in place of IDs.

    The endpoints of a rule are among its channels and recipients.
    """
    kind, fields = item.key.kind, dict(item.fields)
    fields = {**ACTIVE.get(kind, {}), **fields}
    if kind in (ObjectKind.AGENT, ObjectKind.RULE, ObjectKind.SCHEDULE):
        fields["name"] = fields.get("name") or item.key.name
    if kind is ObjectKind.KPI:
        fields["name"] = item.key.name
    if kind is ObjectKind.BENCHMARK:
        metadata = dict(fields.get("metadata") or {})
        fields["name"] = metadata.pop("name", item.key.name)
        # For commands on files.
        fields.pop("columns", None)
        if "agents" in fields:
            fields["agents"] = sorted({*fields["agents"]})
        if "metadata" in fields:
            fields["metadata"] = metadata
    names = fields.pop("endpoints", None)
    return fields if names is None else fields | _targets(content, fields, names)


def _targets(content: ProjectFile, fields: Fields, names: list[str]) -> JSON:
    endpoints = {item.key.name: item.fields for item in content.of_kind(ObjectKind.ENDPOINT)}
    own_channels = fields.get("channels", default_of(ObjectKind.RULE, "channels"))
    channels = [*own_channels, *(endpoints[name]["channel"] for name in names)]
    recipients = [*fields.get("recipients", ()), *(endpoints[name]["recipient"] for name in names)]
    return {
        "channels": list(dict.fromkeys(channels)),
        "recipients": list(dict.fromkeys(recipients)),
    }


def shown_fields(kind: ObjectKind, view: Fields) -> JSON:
    """A view of the API as fields of a file, except that agents and KPIs have their IDs."""
    shown = {name: view[name] for name in editable_fields(kind) if name in view}
    if kind is ObjectKind.AGENT:
        shown["langfuseSecretKey"] = view[_HAS_KEY]
    if kind is ObjectKind.KPI:
        shown["name"] = view["name"]
    if kind is ObjectKind.BENCHMARK:
        metadata = dict(view["metadata"])
        shown["name"] = metadata.pop("name", None) or view["id"]
        shown["metadata"] = metadata
        shown["agents"] = view["evaluates"]
    if kind in (ObjectKind.RULE, ObjectKind.SCHEDULE):
        shown["agent"] = view["agentId"]
    return shown


def api_body(
    kind: ObjectKind,
    fields: Fields,
    current: Fields,
    object_id: str,
    ids: Callable[[ObjectKind, str], str],
) -> JSON:
    """The body of the API for fields of a file; `ids` gives the ID of an object by its name in the file."""
    body = dict(fields)
    if "agent" in body:
        agent = body.pop("agent")
        body["agentId"] = agent and ids(ObjectKind.AGENT, agent)
    if "agents" in body:
        body["evaluates"] = [ids(ObjectKind.AGENT, name) for name in body.pop("agents")]
    if kind is ObjectKind.BENCHMARK and body.keys() & {"name", "metadata"}:
        name = body.pop("name", current.get("name"))
        metadata = body.get("metadata", current.get("metadata")) or {}
        body["metadata"] = {**metadata, **({"name": name} if name not in (None, object_id) else {})}
    return body


def is_hidden(name: str, value: Any) -> bool:
    """Return whether a value of a file has what the service does not show."""
    match name:
        case "langfuseSecretKey" | "runUrl":
            return value is not None
        case "source":
            return bool(value) and "secretKey" in value
        case "recipient":
            return "://" in value
        case "recipients":
            return any("://" in recipient for recipient in value)
    return False


def is_as_wanted(name: str, wanted: Any, shown: Any) -> bool:
    """Return whether a field is as the file wants it, as far as the service shows it."""
    if is_hidden(name, wanted):
        return False
    if name == "source" and isinstance(shown, dict):
        shown = {key: value for key, value in shown.items() if key != _HAS_KEY}
    return is_same_json(wanted, shown)


def compact(fields: Fields) -> JSON:
    """The fields with digests in place of long values."""
    return {name: _compact(value) for name, value in fields.items()}


def seal(fields: Fields, salt: str) -> JSON:
    """The fields as the service may store them: as `compact`, with digests in place of secrets."""
    return {
        name: _digest(value, f"{salt}/{name}") if is_hidden(name, value) else _compact(value)
        for name, value in fields.items()
    }


def _compact(value: Any) -> Any:
    text = _text_of(value)
    if len(text) <= _MAX_STORED_CHARS:
        return value
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _digest(value: Any, salt: str) -> str:
    key = hashlib.scrypt(
        _text_of(value).encode(), salt=salt.encode(), n=_SCRYPT_COST, r=8, p=1, dklen=16
    )
    return f"scrypt:{key.hex()}"


def _text_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
