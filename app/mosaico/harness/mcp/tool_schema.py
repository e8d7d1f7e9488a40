"""The input schema of a tool as the APIs of models accept it.

Every API refuses a whole request for one schema that it does not accept. MCP allows more than they do:
Anthropic and OpenAI refuse a root that is a union, and OpenAI an object without `properties`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

_UNIONS: Final = ("anyOf", "oneOf")
_REFUSED_AT_ROOT: Final = ("enum", "not", "const")

Schema = dict[str, Any]


class ModelSchema(NamedTuple):
    """A schema for models, and a sentence for each change that a model can notice."""

    schema: Schema
    changes: tuple[str, ...]


def model_schema(schema: Schema) -> ModelSchema:
    """The schema with an object at its root, without a union or a reference there.

    The properties of all variants of a root union become properties of the root; required are those
    that all variants require. The arguments of a variant are never excluded; a property that only one
    variant describes has its type for all.
    """
    changes: list[str] = []
    root = _without_root_reference(schema, changes)
    root = _without_root_union(root, changes)
    for key in _REFUSED_AT_ROOT:
        if key in root:
            del root[key]
            changes.append(f"{key} at its root is left out")
    if root.get("type") != "object":
        root["type"] = "object"
        changes.append("its root gets the type object")
    if not isinstance(root.get("properties"), dict):
        root["properties"] = {}
    if "required" in root and root["required"] != _names(root["required"]):
        del root["required"]
        changes.append("required is no list of names and is left out")
    if any("$ref" in node for node in _nodes(root)):
        changes.append("$ref stays, and Gemini models refuse it")
    return ModelSchema(root, tuple(changes))


def _without_root_reference(schema: Schema, changes: list[str]) -> Schema:
    root = dict(schema)
    reference = root.pop("$ref", None)
    if reference is None:
        return root
    changes.append(f"the reference {reference} at its root is replaced")
    return {**_referenced(schema, reference), **root}


def _referenced(schema: Schema, reference: object) -> Schema:
    """The part of the schema that `#/a/b` names; empty when it does not exist."""
    part: object = schema
    for name in str(reference).removeprefix("#/").split("/"):
        part = part.get(name) if isinstance(part, Mapping) else None
    return dict(part) if isinstance(part, Mapping) and "$ref" not in part else {}


def _without_root_union(root: Schema, changes: list[str]) -> Schema:
    for union in (*_UNIONS, "allOf"):
        variants = root.pop(union, None)
        if variants is None:
            continue
        changes.append(f"the variants of {union} at its root are merged")
        resolved = [
            _resolved(root, variant) for variant in _elements(variants) if isinstance(variant, dict)
        ]
        root = _merged(root, resolved, requires_all=union == "allOf")
    return root


def _resolved(root: Schema, variant: Schema) -> Schema:
    return _referenced(root, variant["$ref"]) if "$ref" in variant else variant


def _merged(root: Schema, variants: list[Schema], *, requires_all: bool) -> Schema:
    properties = _properties(root)
    for variant in variants:
        for name, property_schema in _properties(variant).items():
            earlier = properties.setdefault(name, property_schema)
            if earlier != property_schema:
                properties[name] = {"anyOf": [*_alternatives(earlier), property_schema]}
    required_sets = [set(_names(variant.get("required"))) for variant in variants]
    combine = set.union if requires_all else set.intersection
    required = set(_names(root.get("required"))).union(
        combine(*required_sets) if required_sets else ()
    )
    merged = {**root, "properties": properties}
    if required:
        merged["required"] = [name for name in properties if name in required]
    if not requires_all:
        # A property of one variant must not be refused because another one lacks it.
        merged.pop("additionalProperties", None)
    return merged


def _properties(schema: Schema) -> Schema:
    properties = schema.get("properties")
    return dict(properties) if isinstance(properties, dict) else {}


def _names(value: object) -> list[str]:
    """The names of `required`; none where it is something else, as some servers write."""
    return [name for name in _elements(value) if isinstance(name, str)]


def _elements(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _alternatives(property_schema: Any) -> list[Any]:
    is_merged = isinstance(property_schema, dict) and property_schema.keys() == {"anyOf"}
    return property_schema["anyOf"] if is_merged else [property_schema]


def _nodes(value: object) -> Iterable[Mapping[str, Any]]:
    """All mappings of a schema."""
    if isinstance(value, Mapping):
        yield value
        for element in value.values():
            yield from _nodes(element)
    elif isinstance(value, list):
        for element in value:
            yield from _nodes(element)
