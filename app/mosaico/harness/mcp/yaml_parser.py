"""A YAML parser that records the position of every key and value.

Plain scalars follow the core schema of YAML 1.2: `no` and `1:30` are text, `012` is twelve.
Rejected: aliases and anchors, tags, duplicate keys, several documents, non-finite numbers, lone
surrogates, more than 1 MiB and more than 64 levels.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

import yaml

MAX_BYTES: Final = 1024 * 1024
MAX_DEPTH: Final = 64

_PLAIN: Final = "plain"
_TEXT: Final = "text"
_NULL: Final = re.compile(r"~|null|Null|NULL|")
_TRUE: Final = re.compile(r"true|True|TRUE")
_FALSE: Final = re.compile(r"false|False|FALSE")
# Python refuses to convert more than 4,300 digits.
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,4000}")
_OCTAL_OR_HEX: Final = re.compile(r"0o[0-7]{1,1000}|0x[0-9a-fA-F]{1,1000}")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# Texts that a parser of YAML 1.1 reads as another type.
_YAML_1_1_AMBIGUOUS: Final = re.compile(
    r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|y|Y|n|N"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+|[-+]?0[0-9]+|[0-9][0-9_]*_[0-9_]*|=|<<"
)

YamlPath = tuple[str | int, ...]


class SourcePosition(NamedTuple):
    """A line and a column, both starting at 1."""

    line: int
    column: int


class InvalidYaml(Exception):
    """A text is not YAML of the accepted subset."""

    def __init__(self, text: str, position: SourcePosition) -> None:
        super().__init__(text)
        self.text = text
        self.position = position


@dataclass(slots=True)
class YamlDocument:
    """A parsed document: its value, the positions of keys and values, and texts ambiguous in YAML 1.1."""

    value: Any = None
    texts_only: bool = False
    key_positions: dict[YamlPath, SourcePosition] = field(default_factory=dict)
    value_positions: dict[YamlPath, SourcePosition] = field(default_factory=dict)
    ambiguous_texts: dict[YamlPath, str] = field(default_factory=dict)

    def position_of(self, path: YamlPath, *, key: bool = False) -> SourcePosition:
        """The position of a value or its key; for a missing path, the position of its parent."""
        if key and path in self.key_positions:
            return self.key_positions[path]
        while path and path not in self.value_positions:
            path = path[:-1]
        return self.value_positions.get(path, SourcePosition(1, 1))


class _NodeLoader(yaml.SafeLoader):
    """Composes nodes only; this module decides the types of plain scalars, not the library."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        # Before the node is composed: expanding aliases is what makes a small file explode in
        # memory.
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            _reject("anchors and aliases are not supported; repeat the value", event)
        if self.depth >= MAX_DEPTH:
            _reject(f"nested more than {MAX_DEPTH} levels deep", event)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:  # noqa: ARG002
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _TEXT
        return kind.__name__


def parse_yaml(raw: bytes, *, texts_only: bool = False) -> YamlDocument:
    """Parse a text with one document. Raises InvalidYaml with the position of the first error.

    With `texts_only` every scalar is text as written; null is the empty text.
    """
    if len(raw) > MAX_BYTES:
        raise InvalidYaml(f"larger than {MAX_BYTES} bytes", SourcePosition(1, 1))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidYaml("not UTF-8", SourcePosition(line, 1)) from None
    try:
        node = _NodeLoader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        message = ", ".join(part for part in (error.context, error.problem) if part)
        raise InvalidYaml(message, _position_of(error.problem_mark or error.context_mark)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InvalidYaml(
            f"contains the character {error.character!r}, which YAML does not allow",
            SourcePosition(line, 1),
        ) from None
    document = YamlDocument(texts_only=texts_only)
    if node is not None:
        document.value = _build_value(node, (), document)
    return document


def _build_value(node: yaml.Node, path: YamlPath, document: YamlDocument) -> Any:
    document.value_positions[path] = _position_of(node.start_mark)
    if node.tag not in (_PLAIN, _TEXT, type(node).__name__):
        _reject(f"the tag {node.tag!r} is not supported; remove it", node)
    if isinstance(node, yaml.MappingNode):
        return _build_mapping(node, path, document)
    if isinstance(node, yaml.SequenceNode):
        return [_build_value(child, (*path, i), document) for i, child in enumerate(node.value)]
    text = _read_text(node)
    if node.tag == _TEXT or document.texts_only:
        return "" if node.tag == _PLAIN and _NULL.fullmatch(text) else text
    if _YAML_1_1_AMBIGUOUS.fullmatch(text):
        document.ambiguous_texts[path] = text
    return _parse_plain_scalar(text, node)


def _build_mapping(
    node: yaml.MappingNode, path: YamlPath, document: YamlDocument
) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            _reject("a key must be a text", key_node)
        # Keys are texts, also `on:` and `1:`, because fields have names.
        key = _read_text(key_node)
        if key in mapping:
            earlier_position = document.key_positions[(*path, key)]
            _reject(f"the key {key!r} is already on line {earlier_position.line}", key_node)
        document.key_positions[(*path, key)] = _position_of(key_node.start_mark)
        mapping[key] = _build_value(value_node, (*path, key), document)
    return mapping


def _read_text(node: yaml.Node) -> str:
    text = str(node.value)
    if not text.isprintable() and any("\ud800" <= char <= "\udfff" for char in text):
        _reject("a lone surrogate, which cannot be stored; write the whole character", node)
    return text


def _parse_plain_scalar(text: str, node: yaml.Node) -> str | float | bool | None:
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL_OR_HEX.fullmatch(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    if _NOT_FINITE.fullmatch(text) or _FLOAT.fullmatch(text):
        _reject(f"{text[:40]} is not a JSON number; quote it to make it text", node)
    return text


def _reject(text: str, source: Any) -> NoReturn:
    raise InvalidYaml(text, _position_of(source.start_mark))


def _position_of(mark: Any) -> SourcePosition:
    return (
        SourcePosition(mark.line + 1, mark.column + 1) if mark is not None else SourcePosition(1, 1)
    )
