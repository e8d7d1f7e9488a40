"""The schema of a project file, derived from the bodies of the API that create its objects.

An object has the fields of the body that creates it, with three differences: other objects have names in place of
IDs, lists of objects are mappings by name, and the name is the key.
"""

import copy
import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from mosaico.agents.schemas import AgentBody
from mosaico.alerts.schemas import AlertConfigBody
from mosaico.benchmarks.schemas import MAX_AGENTS, MAX_KPIS, BenchmarkBody, KpiBody
from mosaico.core.schemas import ShortText, WireModel
from mosaico.notifications.schemas import EndpointBody
from mosaico.project_file.judged_fields import FileColumns
from mosaico.project_file.kinds import BENCHMARK_SECTIONS, SECTIONS, ObjectKind
from mosaico.schedules.schemas import ScheduleBody

MAX_OBJECTS: Final = 1000


class _Entry(WireModel):
    """An object of a file. Its fields have one spelling."""

    model_config = ConfigDict(validate_by_name=False)


def _nothing_as_empty(value: object) -> object:
    """A key without a value is an empty mapping: `support-bot:` names an object without fields."""
    return {} if value is None else value


def _require_trimmed(key: object) -> object:
    if isinstance(key, str) and key != key.strip():
        raise PydanticCustomError("untrimmed_key", "a name must not begin or end with white space")
    return key


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


_Key = Annotated[ShortText, BeforeValidator(_require_trimmed)]


def _named(entry: type[BaseModel], most: int = MAX_OBJECTS) -> Any:
    """A mapping of objects by name."""
    item: Any = Annotated[entry, BeforeValidator(_nothing_as_empty)]
    return Annotated[dict[_Key, item], Field(max_length=most), BeforeValidator(_nothing_as_empty)]


_AgentName = Annotated[ShortText, Field(description="Name of an agent of this file.")]
_AgentNames = Annotated[
    list[ShortText],
    Field(max_length=MAX_AGENTS, description="Names of the evaluated agents. Default: any agent."),
]
_Name = Annotated[ShortText | None, Field(description="Shown name. Default: the key.")]
_DAILY_SUMMARY: Final = Field(
    default=False, description="Whether the endpoint receives the daily summary."
)
_EndpointNames = Annotated[
    list[ShortText],
    Field(
        max_length=20,
        description="Names of endpoints of this file: their channels and recipients are added to those of the rule.",
    ),
]
_Channel = Annotated[str, Field(max_length=64, examples=["SLACK"]), BeforeValidator(_upper)]

# The fields of the body that a file does not have: the name is the key, others have names in place of IDs.
_OMITTED: Final[Mapping[ObjectKind, frozenset[str]]] = {
    ObjectKind.ENDPOINT: frozenset(),
    ObjectKind.AGENT: frozenset(),
    ObjectKind.BENCHMARK: frozenset({"evaluates", "measures"}),
    ObjectKind.KPI: frozenset({"name"}),
    ObjectKind.RULE: frozenset({"benchmark_id", "agent_id"}),
    ObjectKind.SCHEDULE: frozenset({"benchmark_id", "agent_id"}),
}
BODIES: Final[Mapping[ObjectKind, type[BaseModel]]] = {
    ObjectKind.ENDPOINT: EndpointBody,
    ObjectKind.AGENT: AgentBody,
    ObjectKind.BENCHMARK: BenchmarkBody,
    ObjectKind.KPI: KpiBody,
    ObjectKind.RULE: AlertConfigBody,
    ObjectKind.SCHEDULE: ScheduleBody,
}
"""The body of the API with the fields of each kind."""


@cache
def entry_model(kind: ObjectKind) -> type[BaseModel]:
    """The model of an object of a file."""
    body = BODIES[kind]
    fields = {
        name: (field.annotation, _with_one_spelling(name, field))
        for name, field in body.model_fields.items()
        if name not in _OMITTED[kind]
    }
    model: type[BaseModel] = create_model(
        f"{kind.capitalize()}Entry",
        __base__=_Entry,
        __doc__=f"An object of the kind {kind}.",
        **{**fields, **_own_fields(kind)},
    )
    return model


@cache
def document_model() -> type[BaseModel]:
    """The model of a whole file."""
    name = Field(description="The objects that this file creates belong to this name.")
    fields: dict[str, Any] = {"name": (ShortText, name)}
    fields |= {
        section: (_named(entry_model(kind)), Field(default_factory=dict))
        for section, kind in SECTIONS.items()
    }
    model: type[BaseModel] = create_model(
        "ProjectFile",
        __base__=_Entry,
        __doc__="A file `mosaico.yaml`: endpoints, agents and benchmarks, which `mosaico apply` creates and changes.",
        **fields,
    )
    return model


@cache
def json_schema() -> dict[str, Any]:
    """The JSON Schema of a file, for editors."""
    schema = document_model().model_json_schema(by_alias=True, mode="validation")
    definitions = schema.get("$defs", {})
    for definition in (schema, *definitions.values()):
        _allow_nothing(definition)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "MOSAICO project file",
    }


def field_names(path: tuple[str | int, ...]) -> list[str]:
    """The names of the fields of the object at a path of a file; none where any key may be."""
    schema = json_schema()
    nodes = [schema]
    for step in path:
        nodes = [below for node in nodes for below in _step(node, step, schema)]
    return list(dict.fromkeys(name for node in nodes for name in node.get("properties", {})))


def _own_fields(kind: ObjectKind) -> dict[str, Any]:
    """The fields of a file that are not those of the body."""
    match kind:
        case ObjectKind.ENDPOINT:
            return {"channel": (_Channel, ...), "daily_summary": (bool, _DAILY_SUMMARY)}
        case ObjectKind.AGENT:
            return {"name": (_Name, None)}
        case ObjectKind.KPI:
            return {}
        case ObjectKind.RULE:
            return {
                "name": (_Name, None),
                "agent": (_AgentName | None, None),
                "endpoints": (_EndpointNames, Field(default_factory=list)),
            }
        case ObjectKind.SCHEDULE:
            return {"name": (_Name, None), "agent": (_AgentName, ...)}
        case ObjectKind.BENCHMARK:
            sections = {
                "kpis": _named(entry_model(ObjectKind.KPI), MAX_KPIS),
                "rules": _named(entry_model(ObjectKind.RULE)),
                "schedules": _named(entry_model(ObjectKind.SCHEDULE)),
            }
            return {
                "agents": (_AgentNames, Field(default_factory=list)),
                "columns": (FileColumns, Field(default_factory=dict)),
                **{
                    name: (section, Field(default_factory=dict))
                    for name, section in sections.items()
                },
            }


def _with_one_spelling(name: str, field: FieldInfo) -> FieldInfo:
    """The field under its first name only; the API also accepts those of the original system."""
    own = copy.copy(field)
    own.alias = own.validation_alias = own.serialization_alias = to_camel(name)
    own.alias_priority = 2
    return own


def _allow_nothing(definition: dict[str, Any]) -> None:
    """Accept null where a mapping of objects is expected."""
    for name, section in definition.get("properties", {}).items():
        if name in {**SECTIONS, **BENCHMARK_SECTIONS} and "additionalProperties" in section:
            section["type"] = ["object", "null"]
            section["additionalProperties"] = {
                "anyOf": [section["additionalProperties"], {"type": "null"}]
            }


def _step(node: dict[str, Any], step: str | int, root: dict[str, Any]) -> list[dict[str, Any]]:
    if isinstance(step, int):
        below = [node["items"]] if "items" in node else []
    else:
        values = node.get("additionalProperties")
        known = node.get("properties", {}).get(step)
        below = [known] if known else [values] if isinstance(values, dict) else []
    return [each for start in below for each in _alternatives(start, root)]


def _alternatives(node: dict[str, Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas that a schema refers to."""
    if "$ref" in node:
        return _alternatives(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    variants = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    return [each for variant in variants for each in _alternatives(variant, root)] or [node]


def format_schema() -> str:
    """The text of the file that the package contains."""
    return json.dumps(json_schema(), ensure_ascii=False) + "\n"
