"""Errors and help texts of the API in the words of a form: its labels and choices, and what its reader does."""

import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

_ABBREVIATIONS: Final = MappingProxyType(
    {"id": "ID", "kpi": "KPI", "kpis": "KPIs", "url": "URL", "usd": "USD"}
)
MISSING_TEXT: Final = "is missing; fill it in"
MISSING_CHOICE: Final = "is missing; choose one"
# A text in quotes may be the reader's own. An apostrophe within a word is not a quote.
_QUOTED: Final = r"""(?<!\w)'(?:\\.|[^'\\])*'(?!\w)|"(?:\\.|[^"\\])*\""""
# What a program does with a field of a body, then what a reader does with an input.
_PHRASES: Final = tuple(
    (re.compile(f"(?P<quoted>{_QUOTED}|`[^`]*`)|{pattern}"), replacement)
    for pattern, replacement in (
        (r"^should have at least 1 (?:character|item).*", MISSING_TEXT),
        (r"^is missing; send it$", MISSING_TEXT),
        (r"^should be a valid integer.*", "is not a whole number"),
        (r"^should be a (?:valid|finite) number.*", "is not a number"),
        (r"^should be '.*", "is not one of the choices"),
        (r"^should match pattern .*", "does not have the expected form"),
        (r"^is not a known field;.*", "does not apply here; leave it empty"),
        (r"^(?:Input tag .* found|Unable to extract tag) using (?:discriminator )?'(\w+)'.*", r"needs a choice of `\2`"),
        (r" after validation, not \d+", ""),
        (r"The body is not valid JSON: |; send one JSON value\b\.?|; correct the places in `errors` and send it again\.?", ""),
        (r"; see `errors`", ""),
        (r"\bomit (?:it|this field)(?: or send null)?\b", "leave it empty"),
        (r"\bomit (`?\w+`?)", r"leave \2 empty"),
        (r"\bsend null\b", "leave it empty"),
        (r"\bsend the ID of (?:an|the) agent(?: to backtest)?", "choose an agent"),
        (r"\bsend\b", "enter"),
        (r"\bNull: ", "Empty: "),
    )
)  # fmt: skip
# A quoted text, a name in code, other code, a word.
_TOKEN: Final = re.compile(rf"{_QUOTED}|`([^`\s]+)`|`[^`]*`|\b[A-Za-z][\w.]*\w")
_CAMEL_CASE: Final = re.compile(r"[a-z][a-z0-9]*(\.[a-z]|[A-Z])[A-Za-z0-9.]*")
# The beginnings of an error that continues its label: "Threshold is not a number".
_PREDICATE: Final = re.compile(
    r"(is|are|was|should|must|has|have|does|do|contains|cannot|requires|needs|would|lists|exists)\b"
)


class FormWords(NamedTuple):
    """The labels of the inputs of a form by the names of the API, and the texts of their choices by the values."""

    labels: Mapping[str, str]
    choices: Mapping[str, str]

    def translate(self, text: str) -> str:
        """An error or a help text of the API for a reader of the form. What somebody typed, in quotes, stays."""
        return _TOKEN.sub(self._translate_token, translate_phrases(text))

    def _translate_token(self, token: re.Match[str]) -> str:
        name = token[1] or token[0]
        is_code = token[1] is not None
        if name.isupper() and name in self.choices:
            return f"“{self.choices[name]}”"
        if not (is_code or _CAMEL_CASE.fullmatch(name)):
            return token[0]
        if name in self.labels:
            return f"“{self.labels[name]}”"
        is_name = is_code and re.fullmatch(r"[A-Za-z]+", name)
        return f"“{words_of(name)}”" if is_name else name


def translate_phrases(text: str) -> str:
    """An error of the API for a reader of any form: what to do with an input instead of a field of a body. What is in
    quotes stays.
    """
    for pattern, replacement in _PHRASES:
        text = pattern.sub(partial(_replace_phrase, replacement), text)
    return text


def _replace_phrase(replacement: str, match: re.Match[str]) -> str:
    return match[0] if match["quoted"] is not None else match.expand(replacement)


def with_label(error: str, label: str) -> str:
    """The error of an input as a sentence that begins with its label."""
    return f"{label} {error}" if _PREDICATE.match(error) else f"{label}: {error}"


def words_of(name: str) -> str:
    """`minCoverage` as "Min coverage", `runUsd` as "Run USD", `FIRE_ONCE` as "Fire once"."""
    if "-" in name:
        return name.replace("-", " ")
    if name.isupper():
        words = name.lower().split("_")
    else:
        words = "".join(f" {char.lower()}" if char.isupper() else char for char in name).split()
    text = " ".join(_ABBREVIATIONS.get(word, word) for word in words)
    return text[:1].upper() + text[1:]
