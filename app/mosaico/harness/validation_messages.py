"""Words for the validation errors of files that people write: what is wrong and what to write."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

DocumentPath = tuple[str | int, ...]

_TYPES: Final = {
    "string_type": "a text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
    "finite_number": "a finite number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
}
_BOUNDS: Final = {
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} elements",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
}
_PYDANTIC_TYPES: Final = frozenset(get_args(ErrorType))


class Flaw(NamedTuple):
    """One flaw: the path in the document, and its description."""

    path: DocumentPath
    text: str

    def located_text(self) -> str:
        """`servers/a: type is missing`; at the top of the document the description alone."""
        location = "/".join(map(str, self.path))
        return f"{location}: {self.text}" if location else self.text


def describe_errors(
    errors: Sequence[ErrorDetails],
    document: Any = None,
    rules: Mapping[str, str] | None = None,
) -> Iterator[Flaw]:
    """The flaws behind the errors of a model, in order.

    `rules` describes what a pattern or a discriminator allows. A value that may have several types
    has one error for each of them: they become one flaw. Without a document, the paths are those
    of the model.
    """
    by_path: dict[DocumentPath, list[ErrorDetails]] = {}
    for error in errors:
        path = error["loc"] if document is None else document_path(error["loc"], document)
        by_path.setdefault(path, []).append(error)
    for path, same_path in by_path.items():
        is_type_error = all(error["type"] in _TYPES for error in same_path)
        # The flaw of an element is more exact than the type that its container does not have.
        if not is_type_error or not any(_is_below(path, other) for other in by_path):
            yield Flaw(path, _describe(same_path, rules or {}))


def document_path(loc: tuple[str | int, ...], document: Any) -> DocumentPath:
    """The path of an error in the document, without the steps that name the variant of a type."""
    path: list[str | int] = []
    for step in loc:
        if _has_step(document, step):
            document = document[step]
            path.append(step)
    return tuple(path)


def _is_below(path: DocumentPath, other: DocumentPath) -> bool:
    return len(other) > len(path) and other[: len(path)] == path


def _describe(errors: Sequence[ErrorDetails], rules: Mapping[str, str]) -> str:
    types = [_TYPES[error["type"]] for error in errors if error["type"] in _TYPES]
    texts = [_describe_one(error, rules) for error in errors if error["type"] not in _TYPES]
    if not texts:
        texts = [f"must be {' or '.join(dict.fromkeys(types))}"]
    return "; ".join(dict.fromkeys(texts))


def _describe_one(error: ErrorDetails, rules: Mapping[str, str]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    match kind:
        case "missing":
            return f"{error['loc'][-1]} is missing"
        case "union_tag_not_found":
            return rules.get(context["discriminator"], "type is missing")
        case "union_tag_invalid":
            tags = _alternatives(context["expected_tags"])
            return f"type must be {tags}, not {context['tag']!r}"
        case "string_pattern_mismatch":
            return rules.get(context["pattern"], f"must match {context['pattern']}")
    return _describe_value(error)


def _describe_value(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**context)
    if kind == "value_error":  # raised by a validator of ours, in our words
        return str(context["error"])
    if kind == "extra_forbidden":
        return f"{error['loc'][-1]} is not a known field"
    # A type that pydantic does not define is an error of ours, with our own text.
    return "is not valid" if kind in _PYDANTIC_TYPES else error["msg"]


def _alternatives(tags: str) -> str:
    """`'stdio', 'http'` as `stdio or http`."""
    return " or ".join(tag.strip(" '") for tag in tags.split(","))


def _has_step(value: Any, step: str | int) -> bool:
    if isinstance(value, list | tuple):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value
