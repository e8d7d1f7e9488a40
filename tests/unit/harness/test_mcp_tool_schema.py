"""Schemas of tools for models: no API refuses them, and no valid argument is excluded."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from mosaico.harness.mcp.tool_schema import model_schema

ID = {"properties": {"id": {"type": "integer"}}, "required": ["id"]}
NAME = {"properties": {"name": {"type": "string"}, "id": {"type": "string"}}, "required": ["name"]}
SOUND = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def test_model_schema__sound_schema_is_unchanged() -> None:
    assert model_schema(SOUND) == (SOUND, ())
    # Only OpenAI asks for it, and a model does not notice it.
    assert model_schema({"type": "object"}) == ({"type": "object", "properties": {}}, ())


@pytest.mark.parametrize(
    ("schema", "properties", "required"),
    [
        ({"oneOf": [ID, NAME]}, {"id", "name"}, []),
        ({"allOf": [ID, {"properties": {"b": {}}}]}, {"id", "b"}, ["id"]),
        ({**SOUND, "anyOf": [ID]}, {"a", "id"}, ["a", "id"]),
        ({"$ref": "#/$defs/Args", "$defs": {"Args": SOUND}}, {"a"}, ["a"]),
        ({"anyOf": [{"$ref": "#/$defs/Args"}, ID], "$defs": {"Args": SOUND}}, {"a", "id"}, []),
        ({"properties": {"a": {}}}, {"a"}, []),
        ({"type": "object", "required": None}, set(), []),
        ({"type": "string"}, set(), []),
        ({"$ref": "#/$defs/Gone"}, set(), []),
        ({"$ref": "http://x.test/schema"}, set(), []),
        # Servers send what no schema may hold: one tool must not end the list.
        ({"allOf": 3}, set(), []),
        ({"anyOf": [None, {"properties": [1]}, {"required": [["x"]]}]}, set(), []),
        ({"required": [1]}, set(), []),
    ],
)
def test_model_schema__root_is_an_object_with_properties(
    schema: dict[str, Any], properties: set[str], required: list[str]
) -> None:
    changed = model_schema(schema)
    assert changed.schema["type"] == "object"
    assert set(changed.schema["properties"]) == properties
    assert changed.schema.get("required", []) == required
    assert {"anyOf", "oneOf", "allOf", "$ref", "enum", "not"}.isdisjoint(changed.schema)
    assert changed.changes


PROPERTY_NAMES = st.sampled_from(["a", "b", "c"])
PROPERTIES = st.dictionaries(
    PROPERTY_NAMES, st.sampled_from([{"type": "string"}, {"type": "integer"}, {}]), max_size=3
)
OBJECTS = st.builds(
    lambda properties, required, closed: {
        "type": "object",
        "properties": properties,
        "required": sorted(required),
        **({"additionalProperties": False} if closed else {}),
    },
    PROPERTIES,
    st.sets(PROPERTY_NAMES),
    st.booleans(),
)
ROOTS = st.one_of(
    OBJECTS,
    st.builds(
        lambda union, variants, rest: {**rest, union: variants},
        st.sampled_from(["anyOf", "oneOf", "allOf"]),
        st.lists(OBJECTS, min_size=1, max_size=3),
        st.sampled_from([{}, {"type": "object"}, SOUND]),
    ),
)
ARGUMENTS = st.dictionaries(PROPERTY_NAMES, st.sampled_from(["x", 1]))


@given(ROOTS, ARGUMENTS)
def test_model_schema__valid_arguments_stay_valid(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    changed = model_schema(schema).schema
    Draft202012Validator.check_schema(changed)
    if Draft202012Validator(closed(schema)).is_valid(arguments):
        assert Draft202012Validator(changed).is_valid(arguments)


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema whose variants take the properties that they describe, and no others."""
    return {
        key: [{**variant, "additionalProperties": False} for variant in value]
        if key in ("anyOf", "oneOf", "allOf")
        else value
        for key, value in schema.items()
    }
