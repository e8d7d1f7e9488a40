"""The OpenAPI description, and Swagger UI from local files: the Content-Security-Policy allows no other origin.

FastAPI writes what the types say. The rest repeats over many schemas and operations, so it is written
once, by name, in three files of the application.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>MOSAICO API</title>
<link rel="icon" href="/swagger-files/favicon.png">
<link rel="stylesheet" href="/swagger-files/swagger-ui.css">
<link rel="stylesheet" href="/static/swagger-page.css">
<script src="/static/theme.js"></script>
</head>
<body>
<main>
<h1 class="hidden">API of this service</h1>
<p class="note">Requests from this page change this service. Press Authorize and paste an API key
first.</p>
<div id="swagger-ui"></div>
<noscript><p class="note">This page requires JavaScript; the OpenAPI description is at
<a href="/openapi.json">/openapi.json</a>.</p></noscript>
</main>
<script src="/swagger-files/swagger-ui-bundle.js"></script>
<script src="/static/swagger-init.js"></script>
</body>
</html>
"""


def install(app: FastAPI) -> None:
    """Serve the page at `/swagger-ui.html` and `/docs`, and its files."""
    app.mount("/swagger-files", StaticFiles(directory=_packaged_files()), name="swagger-files")
    for path in ("/swagger-ui.html", "/docs"):
        app.add_api_route(path, render_swagger_page, include_in_schema=False)


def render_swagger_page() -> HTMLResponse:
    """The Swagger UI page."""
    return HTMLResponse(PAGE)


def _packaged_files() -> Path:
    spec = find_spec("fastapi_offline")
    if spec is None or spec.origin is None:
        raise RuntimeError("the package fastapi-offline is missing; run `make install`")
    return Path(spec.origin).parent / "static"


JSON: TypeAlias = dict[str, Any]

_SCHEMA_ENDING = re.compile(r"(View|Body|Create|Created|Patch)$")
_REF = re.compile(r'"#/components/schemas/([^"]+)"')
_PAGE = re.compile(r"Page_(\w+)_")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentTexts:
    """The texts of the document that types do not hold.

    `fields` are descriptions by `Schema.field` or `field`, `parameters` by name,
    `parameter_examples` are values of path parameters by name, `examples` bodies by operation ID, and
    `response_examples` answers by schema, or by operation ID.
    """

    fields: Mapping[str, str]
    parameters: Mapping[str, str]
    parameter_examples: Mapping[str, str]
    examples: Mapping[str, Any]
    response_examples: Mapping[str, Any]


def read_texts(descriptions: Path, examples: Path, response_examples: Path) -> DocumentTexts:
    """The texts of the three files: descriptions as TOML, examples of requests and responses as JSON."""
    tables = tomllib.loads(descriptions.read_text(encoding="utf-8"))
    return DocumentTexts(
        fields=tables["fields"],
        parameters=tables["parameters"],
        parameter_examples=tables["parameter_examples"],
        examples=json.loads(examples.read_text(encoding="utf-8")),
        response_examples=json.loads(response_examples.read_text(encoding="utf-8")),
    )


def complete_document(document: JSON, texts: DocumentTexts) -> None:
    """Complete a document of FastAPI in place."""
    schemas = document["components"]["schemas"]
    _describe_fields(schemas, texts.fields)
    for operation in iter_operations(document):
        _describe_parameters(operation, texts)
        _drop_validation_error(operation)
        operation["responses"] = dict(sorted(operation["responses"].items()))
        operation.setdefault("description", f"{operation['summary']}.")
        example = texts.examples.get(operation["operationId"])
        if example is not None:
            _set_example(operation, example)
        _set_response_example(operation, texts.response_examples)
    _drop_unused_schemas(document)
    document["tags"] = _list_tags(document)


def iter_operations(document: JSON) -> Iterator[JSON]:
    """The operations of all paths."""
    for path in document["paths"].values():
        yield from path.values()


def _describe_fields(schemas: JSON, descriptions: Mapping[str, str]) -> None:
    described = _described_by_family(schemas)
    for schema_name, schema in schemas.items():
        family = _SCHEMA_ENDING.sub("", schema_name)
        for name, field in schema.get("properties", {}).items():
            # Of the same field of a view and a body, only one has its description in the code.
            choices = (
                field.get("description"),
                descriptions.get(f"{schema_name}.{name}"),
                descriptions.get(f"{family}.{name}"),
                described.get((family, name)),
                descriptions.get(name),
            )
            text = next(filter(None, choices), None)
            if text is not None:
                field["description"] = text


def _described_by_family(schemas: JSON) -> dict[tuple[str, str], str]:
    return {
        (_SCHEMA_ENDING.sub("", schema_name), name): field["description"]
        for schema_name, schema in schemas.items()
        for name, field in schema.get("properties", {}).items()
        if field.get("description")
    }


def _describe_parameters(operation: JSON, texts: DocumentTexts) -> None:
    for parameter in operation.get("parameters", ()):
        example = texts.parameter_examples.get(parameter["name"])
        if example is not None and parameter["in"] == "path":
            parameter["example"] = example
        text = texts.parameters.get(parameter["name"])
        if text is not None:
            parameter.setdefault("description", text)


def _drop_validation_error(operation: JSON) -> None:
    """Drop the error that FastAPI adds to operations that declare none."""
    responses = operation["responses"]
    if "HTTPValidationError" in json.dumps(responses.get("422", {})):
        del responses["422"]


def _set_example(operation: JSON, example: Any) -> None:
    operation["requestBody"]["content"]["application/json"]["example"] = example


def schema_of_response(operation: JSON) -> str | None:
    """The name of the schema of a successful answer in JSON, or the ID of an operation whose answer has no
    schema of its own; None when it answers without JSON.
    """
    content = _json_of_success(operation)
    if content is None:
        return None
    match = _REF.search(json.dumps(content["schema"]))
    return match[1] if match and "$ref" in content["schema"] else str(operation["operationId"])


def cut_page(name: str, answer: Any) -> tuple[str, Any]:
    """The schema and the first item of a page, None of an empty page; any other answer as it is."""
    page = _PAGE.fullmatch(name)
    if page is None:
        return name, answer
    return page[1], next(iter(answer["items"]), None)


def _set_response_example(operation: JSON, examples: Mapping[str, Any]) -> None:
    name = schema_of_response(operation)
    if name is None:
        return
    content = _json_of_success(operation)
    assert content is not None
    page = _PAGE.fullmatch(name)
    if page is not None:
        items = [examples[page[1]]] if page[1] in examples else []
        content["example"] = {"items": items, "nextCursor": None}
    elif name in examples:
        content["example"] = examples[name]


def _json_of_success(operation: JSON) -> JSON | None:
    """The JSON content of the 2xx answer of an operation."""
    for status, response in operation["responses"].items():
        content: JSON | None = response.get("content", {}).get("application/json")
        if status.startswith("2") and content is not None:
            return content
    return None


def _drop_unused_schemas(document: JSON) -> None:
    """Drop schemas that nothing refers to, such as the validation error of FastAPI."""
    schemas = document["components"]["schemas"]
    while True:
        referenced = set(_REF.findall(json.dumps(document)))
        unused = schemas.keys() - referenced
        if not unused:
            return
        for name in unused:
            del schemas[name]


def _list_tags(document: JSON) -> list[JSON]:
    names = {tag for operation in iter_operations(document) for tag in operation.get("tags", ())}
    return [{"name": name, "description": f"Operations of {name}."} for name in sorted(names)]
