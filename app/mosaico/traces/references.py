"""Several expected answers of one item: alternatives of which one is enough, or parts that are all needed; pure."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from mosaico.core.strict_json import text_of_json
from mosaico.traces.messages import parse_value
from mosaico.traces.value_text import TextRole, ValueText, parse_encoded, read_text

# Names of lists of which one is enough: plurals, and words for alternatives.
_ALTERNATIVES: Final = frozenset(
    {
        *("ideal", "answers", "references", "truths", "targets", "aliases", "golds", "labels"),
        *("accepted", "acceptable", "possible", "alternatives", "variants", "any", "options"),
    }
)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TRIVIA_LISTS: Final = ("aliases", "Aliases")


class ListRule(StrEnum):
    """What a list of expected answers means."""

    ANY = "any"
    ALL = "all"


class References(NamedTuple):
    """The expected answers of an item, `texts` without a repeated one; `rule` is None where nobody said what the list
    means. `reading` says how the first text was found.
    """

    texts: tuple[str, ...]
    rule: ListRule | None
    reading: ValueText


def read_references(
    value: Any, name: str, rule: ListRule | None = None, *, is_encoded: bool = False
) -> References:
    """The expected answers in a value; `name` is the name of its field or column, and says whether a list means
    alternatives. `rule` is what the user said. Never raises; without an answer `texts` is empty.
    """
    if isinstance(value, str) and not (is_encoded and value.lstrip()[:1] in ("{", "[")):
        return References((value,), rule, ValueText(text=value))
    parsed = parse_encoded(value) if is_encoded else value
    alternatives = _alternatives_of(parsed)
    members = parsed if alternatives is None and _is_list_of_texts(parsed) else alternatives
    if members is None:
        reading = read_text(value, TextRole.REFERENCE, is_encoded=is_encoded)
        return References(() if reading.text is None else (reading.text,), rule, reading)
    readings = [read_text(member, TextRole.REFERENCE) for member in members]
    texts = tuple(dict.fromkeys(r.text for r in readings if r.text is not None))
    first = next(iter(readings), read_text(None))
    if alternatives is not None or means_alternatives(name):
        rule = rule or ListRule.ANY
    return References(texts, rule, first)


def means_alternatives(name: str) -> bool:
    """Return whether a list under a name holds alternatives: `ideal`, `answers`, `ground_truths`."""
    return not _ALTERNATIVES.isdisjoint(word.casefold() for word in _WORDS.findall(name))


def _is_list_of_texts(value: Any) -> bool:
    """Return whether a value is a list of texts, or of several objects with one text each that are no conversation."""
    if not isinstance(value, list | tuple):
        return False
    if len(value) > 1 and all(isinstance(member, Mapping) for member in value):
        is_whole = read_text(value, TextRole.REFERENCE).is_unwrapped
        return not is_whole and all(_is_one_text(member) for member in value)
    return all(isinstance(member, str | int | float) for member in value)


def _is_one_text(value: Any) -> bool:
    reading = read_text(value, TextRole.REFERENCE)
    return reading.is_unwrapped and reading.text is not None


def _alternatives_of(value: Any) -> Sequence[Any] | None:
    """The alternatives in a form that means them: of SQuAD and of TriviaQA."""
    match value:
        case {"text": [*texts], **others} if "answer_start" in others:
            return texts
        case {"value": str() as answer, **others} if any(n in others for n in _TRIVIA_LISTS):
            aliases = next(others[name] for name in _TRIVIA_LISTS if name in others)
            return [answer, *(aliases if isinstance(aliases, list | tuple) else ())]
        case [Mapping() as first, *_] if "answer_start" in first:
            return [m.get("text") for m in value if isinstance(m, Mapping)]
        case Mapping() if len(value) == 1:
            [(name, texts)] = value.items()
            return texts if means_alternatives(str(name)) and _is_list_of_texts(texts) else None
    return None


def read_targets(value: Any, rule: ListRule = ListRule.ANY) -> References:
    """The expected answers of a source whose lists have one known meaning; none for an empty text."""
    return read_references(None if value == "" else value, "", rule)


def expected_fields(references: References) -> dict[str, Any]:
    """The fields of a trace for its expected answers."""
    texts = references.texts
    several = "expected_all" if references.rule is ListRule.ALL else "expected_any"
    return {"expected_output": texts[0] if texts else None} | (
        {several: texts} if len(texts) > 1 else {}
    )


def read_expected(value: Any) -> tuple[str | None, tuple[str, ...]]:
    """The expected answer that a source recorded, and all alternatives where it has several. A list that does not
    say what it means is one text.
    """
    references = read_references(value, "", is_encoded=True)
    if references.rule is ListRule.ANY and len(references.texts) > 1:
        return references.texts[0], references.texts
    reading = read_text(value, TextRole.REFERENCE, is_encoded=True)
    opened = reading.text if reading.is_unwrapped else None
    return opened or text_of_json(parse_value(value)), ()
