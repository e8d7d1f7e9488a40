"""Paths of fields: JMESPath expressions that read a text out of the JSON texts of traces."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

MAX_PATH_CHARS: Final = 200
# Each multi-select can repeat what the one before it gave: a chain of them would grow without limit.
MAX_MULTI_SELECTS: Final = 2


def _validated(path: str) -> str:
    try:
        expression = jmespath.compile(path)
    except JMESPathError as error:
        offset = getattr(error, "lex_position", None)
        position = "" if offset is None else f" at character {offset + 1}"
        raise _invalid(f"is not a valid JMESPath expression: error{position}") from None
    nodes = list(_nodes(expression.parsed))
    for node in nodes:
        if node["type"] == "function_expression":
            _require_function(path, node)
    if sum(node["type"].startswith("multi_select") for node in nodes) > MAX_MULTI_SELECTS:
        raise _invalid(f"may have at most {MAX_MULTI_SELECTS} lists […, …] or objects {{…: …}}")
    return path


def _require_function(path: str, node: dict[str, Any]) -> None:
    """Reject a call that fails for every trace: of an unknown function, or with too few arguments."""
    name, arguments = node["value"], len(node["children"])
    position = f"at character {path.find(name) + 1}"
    if name not in Functions.FUNCTION_TABLE:
        names = ", ".join(sorted(Functions.FUNCTION_TABLE))
        raise _invalid(f"has an unknown function {name} {position}; choose from {names}")
    signature = Functions.FUNCTION_TABLE[name]["signature"]
    is_variadic = bool(signature) and signature[-1].get("variadic", False)
    if arguments < len(signature) or (arguments > len(signature) and not is_variadic):
        raise _invalid(
            f"gives {name} {position} {arguments} arguments; it takes {len(signature)}"
            f"{' or more' if is_variadic else ''}"
        )


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    yield node
    for child in node["children"]:
        if isinstance(child, dict):
            yield from _nodes(child)


def _invalid(detail: str) -> PydanticCustomError:
    return PydanticCustomError("field_path", "{detail}", {"detail": detail})


FieldPath = Annotated[
    str,
    Field(min_length=1, max_length=MAX_PATH_CHARS, examples=["answer"]),
    AfterValidator(_validated),
]
"""A valid JMESPath expression."""
