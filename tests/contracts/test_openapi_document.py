"""The OpenAPI description: every field and parameter is described, every body has an example."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from mosaico.core.web.openapi import iter_operations, read_texts, schema_of_response
from mosaico.main import DESCRIPTIONS, EXAMPLES, RESPONSE_EXAMPLES
from mosaico.overview.providers import REGISTRIES, PluginKind
from tests.support.described_api import api_document

JSON = dict[str, Any]
TEXTS = read_texts(DESCRIPTIONS, EXAMPLES, RESPONSE_EXAMPLES)


@pytest.fixture(scope="module")
def document() -> JSON:
    return api_document()


def properties(document: JSON) -> Iterator[tuple[str, str, JSON]]:
    for schema_name, schema in document["components"]["schemas"].items():
        for name, field in schema.get("properties", {}).items():
            yield schema_name, name, field


def operations(document: JSON) -> list[JSON]:
    return list(iter_operations(document))


def test_openapi__every_property_is_described(document: JSON) -> None:
    missing = [
        f"{schema}.{name}"
        for schema, name, field in properties(document)
        if not field.get("description")
    ]
    assert not missing, (
        "add a description to the field, or its name to app/mosaico/api_descriptions.toml"
    )


def test_openapi__every_parameter_is_described(document: JSON) -> None:
    missing = [
        f"{operation['operationId']}: {parameter['name']}"
        for operation in operations(document)
        for parameter in operation.get("parameters", ())
        if not parameter.get("description")
    ]
    assert not missing, (
        "add a description to the parameter, or its name to app/mosaico/api_descriptions.toml"
    )


def test_openapi__descriptions_are_of_existing_names(document: JSON) -> None:
    names = {name for _, name, _ in properties(document)}
    families = {
        f"{form}.{name}"
        for schema, name, _ in properties(document)
        for form in (schema, re.sub("(View|Body|Create|Created|Patch)$", "", schema))
    }
    parameters = {
        parameter["name"]
        for operation in operations(document)
        for parameter in operation.get("parameters", ())
    }
    assert TEXTS.fields.keys() <= names | families, "remove what no field has"
    assert TEXTS.parameters.keys() <= parameters, "remove what no parameter has"
    assert TEXTS.parameter_examples.keys() <= parameters


def test_openapi__descriptions_are_sentences() -> None:
    for text in (*TEXTS.fields.values(), *TEXTS.parameters.values()):
        # `p` for the text that begins with "pass@k".
        assert re.fullmatch(r"[A-Zp].*[.]", text), text


def test_openapi__every_body_has_an_example(document: JSON) -> None:
    for operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {})
        missing = [media_type for media_type, body in content.items() if "example" not in body]
        assert not missing, f"{operation['operationId']}: add it to app/mosaico/api_examples.json"
    ids = {operation["operationId"] for operation in operations(document)}
    assert TEXTS.examples.keys() <= ids


def test_openapi__closed_sets_of_values_are_enumerations(document: JSON) -> None:
    """Fields of these names have the same values wherever they occur in a run."""
    run = document["components"]["schemas"]["RunView"]["properties"]
    for name in ("status", "triggeredBy", "validity", "verdict", "baselineHold"):
        assert "$ref" in str(run[name]), name
    filters = {
        parameter["name"]: parameter["schema"]
        for operation in operations(document)
        if operation["operationId"] == "listRuns"
        for parameter in operation["parameters"]
    }
    for name in ("status", "triggeredBy", "validity", "verdict"):
        assert "$ref" in str(filters[name]["items"])
    assert "-created" in filters["sort"]["enum"]


# Fields of these names hold one of a few words, and so are enumerations in the document.
CLOSED_NAMES = re.compile(
    "(?i:action|basis|cause|condition|direction|kind|level|method|mode|outcome|policy|reason"
    "|resolution|scale|selection|severity|side|state|status|triggeredBy|type|validity|verdict)$"
)
# Two words in capitals: the description lists values.
LISTED_VALUES = re.compile(r"\b[A-Z]{3,}[A-Z_]*\b.*\b[A-Z]{3,}[A-Z_]*\b")
OPEN_TEXTS = {
    "AgreementMeasure.reason": "a sentence",
    "AnnotationQueueView.reason": "a sentence",
    "JudgeMeasure.reason": "a sentence",
    "CorrectedMeanView.reason": "a sentence",
    "JudgeView.reason": "a sentence",
    "DatasetHealth.reason": "a sentence",
    "AgentSource.kind": "a trace source, also one of a plugin",
    "AgentSourceView.kind": "a trace source, also one of a plugin",
    "AuditEntryView.action": "an operation ID",
    "AuditEntryView.method": "an HTTP method",
    "AuditEntryView.resourceType": "a word of the path",
    "CategoryKpi.reason": "a sentence",
    "CategoryMetric.reason": "a sentence",
    "DisabledScheduleView.disabledReason": "a sentence",
    "EndpointView.disabledReason": "a sentence",
    "FormulaPartView.undefinedReason": "a sentence",
    "FormulaValueView.undefinedReason": "a sentence",
    "HeadlineKpi.undefinedReason": "a sentence",
    "KpiCorrection.reason": "a sentence",
    "KpiValueView.undefinedReason": "a sentence",
    "MonitorAlertTrigger.severity": "a word of Langfuse",
    "PeopleAgreement.reason": "a sentence",
    "ProblemKind.type": "a URL",
    "Problem.type": "a URL",
    "RunVerdict.reason": "a sentence",
    "ScheduleView.disabledReason": "a sentence",
    "TriggerEventView.reason": "a sentence",
    "ValueVerdict.reason": "a sentence",
    "listAudit.action": "an operation ID",
    "listAudit.resourceType": "a word of the path",
}


def texts_of(schema: JSON) -> list[JSON]:
    """The parts of a schema that accept any text."""
    if schema.get("type") == "string":
        return [] if {"enum", "const", "format", "pattern"} & schema.keys() else [schema]
    parts = [*schema.get("anyOf", ()), *filter(None, [schema.get("items")])]
    return [text for part in parts for text in texts_of(part)]


def test_openapi__a_text_of_few_values_is_an_enumeration(document: JSON) -> None:
    """A field is suspect by its name, or when its description lists words in capitals."""
    fields = [
        *((f"{schema}.{name}", name, field, field) for schema, name, field in properties(document)),
        *(
            (f"{operation['operationId']}.{parameter['name']}", parameter["name"], *parts)
            for operation in operations(document)
            for parameter in operation.get("parameters", ())
            for parts in [(parameter["schema"], parameter)]
        ),
    ]
    suspects = {
        full_name
        for full_name, name, schema, described in fields
        if texts_of(schema)
        and (CLOSED_NAMES.search(name) or LISTED_VALUES.search(described.get("description", "")))
    }
    assert suspects == OPEN_TEXTS.keys(), "give the field a StrEnum or a Literal"


def test_openapi__plugin_kinds_are_those_of_the_registries() -> None:
    assert {registry.kind for registry in REGISTRIES} == set(PluginKind)


def test_openapi__has_no_unused_schema(document: JSON) -> None:
    referenced = set(re.findall(r"#/components/schemas/([\w-]+)", str(document)))
    assert document["components"]["schemas"].keys() == referenced


def test_openapi__schemas_of_requests_and_responses_are_the_same(document: JSON) -> None:
    """Generators of clients refuse `X-Input` beside `X-Output`: both have one title."""
    split = [name for name in document["components"]["schemas"] if re.search("-(In|Out)put$", name)]
    assert split == []


def test_openapi__every_successful_answer_in_json_has_an_example_that_fits_its_schema(
    document: JSON,
) -> None:
    """The examples are answers of a service, see `tests/support/response_examples.py`."""
    components = {"components": document["components"]}
    checked = 0
    for operation in operations(document):
        for status, response in operation["responses"].items():
            content = response.get("content", {}).get("application/json")
            if not status.startswith("2") or content is None:
                continue
            assert "example" in content, (
                f"{operation['operationId']}: tests.support.response_examples"
            )
            Draft202012Validator({**content["schema"], **components}).validate(content["example"])
            checked += 1
    assert checked > 90
    names = {schema_of_response(operation) for operation in operations(document)}
    pages = {re.sub(r"^Page_(\w+)_$", r"\1", name) for name in names if name}
    assert TEXTS.response_examples.keys() <= pages, "remove what no operation answers"
