"""Paths of fields: what is a valid expression, and where the error is."""

import pytest
from pydantic import TypeAdapter, ValidationError

from mosaico.traces.files.field_paths import FieldPath

PATH: TypeAdapter[str] = TypeAdapter(FieldPath)


@pytest.mark.parametrize(
    "path",
    [
        "answer",
        "messages[-1].content",
        "join(', ', cities[].name)",
        "merge(@, @)",
        "{a: b, c: d[0:2]}",
        # 200 characters, the most that are accepted.
        "!" * 199 + "a",
        "(" * 99 + "a" + ")" * 99,
    ],
)
def test_field_path__valid_expressions_are_unchanged(path: str) -> None:
    assert PATH.validate_python(path) == path


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("a.", "is not a valid JMESPath expression: error at character 3"),
        ("a b", "is not a valid JMESPath expression: error at character 3"),
        ("$.answer", "is not a valid JMESPath expression: error at character 1"),
        ("a[`x", "is not a valid JMESPath expression: error at character 3"),
        ("a || lower(b)", "has an unknown function lower at character 6; choose from abs, avg,"),
        ("length(a, b)", "gives length at character 1 2 arguments; it takes 1"),
        ("a[].not_null()", "gives not_null at character 5 0 arguments; it takes 1 or more"),
        ("[@, @] | [@, @] | [@, @]", "may have at most 2 lists […, …] or objects {…: …}"),
    ],
)
def test_field_path__errors_name_the_position(path: str, detail: str) -> None:
    with pytest.raises(ValidationError) as raised:
        PATH.validate_python(path)
    [error] = raised.value.errors()
    assert error["msg"].startswith(detail)
