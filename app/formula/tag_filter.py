"""Tag filters of metrics: `ROUGE{lang="de"}` is ROUGE over the traces with the tag `lang:de`.

A condition names a field and its value; the tag of a trace is `field:value`. The field `tag` names
a whole tag: `{tag="smoke"}`. Several conditions must all hold. A filtered metric is one more metric
with a name of its own, whose canonical form has sorted conditions.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

WHOLE_TAG: Final = "tag"

_FIELD: Final = "[A-Za-z_][A-Za-z0-9_.-]*"
_LITERAL: Final = r'"(?:[^"\\]|\\.)*"'
_CONDITION: Final = re.compile(rf"({_FIELD})\s*=\s*({_LITERAL})", re.DOTALL)
_FILTER: Final = rf"\{{\s*{_FIELD}\s*=\s*{_LITERAL}(?:\s*,\s*{_FIELD}\s*=\s*{_LITERAL})*\s*\}}"
_FIELD_TAG: Final = re.compile(rf"({_FIELD}):(.+)", re.DOTALL)
# The name of a score may contain braces, so it is read before the filter.
_FILTERED_KEY: Final = re.compile(
    rf"([A-Za-z_][A-Za-z0-9_]*(?:\[{_LITERAL}\])?)\s*({_FILTER})", re.DOTALL
)


class FilteredKey(NamedTuple):
    """The key of a metric without its filter, and the tags that a trace must have."""

    key: str
    tags: tuple[str, ...]


def filtered_key(key: str, tags: Iterable[str]) -> str:
    """The canonical key of a metric over the traces with all these tags; the key itself without any."""
    conditions = [_condition(tag) for tag in sorted(set(tags))]
    return f"{key}{{{', '.join(conditions)}}}" if conditions else key


@lru_cache(maxsize=1024)
def split_filter(key: str) -> FilteredKey:
    """The parts of a key; a key without a filter has no tags."""
    match = _FILTERED_KEY.fullmatch(key) if key.endswith("}") else None
    return FilteredKey(match[1], tags_of_filter(match[2])) if match else FilteredKey(key, ())


def tags_of_filter(text: str) -> tuple[str, ...]:
    """The tags that a filter such as `{lang="de", tag="smoke"}` requires, sorted."""
    conditions = ((field, unquote(literal)) for field, literal in _CONDITION.findall(text))
    tags = {name if field == WHOLE_TAG else f"{field}:{name}" for field, name in conditions}
    return tuple(sorted(tags))


def literals_of_filter(text: str) -> list[str]:
    """The string literals of a filter, in double quotes."""
    return [literal for _, literal in _CONDITION.findall(text)]


def quote(text: str) -> str:
    """The text as a string literal in double quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def unquote(literal: str) -> str:
    """The content of a string literal in double quotes."""
    return re.sub(r"\\(.)", r"\1", literal[1:-1], flags=re.DOTALL)


def _condition(tag: str) -> str:
    match = _FIELD_TAG.fullmatch(tag)
    if match is None or match[1] == WHOLE_TAG:
        return f"{WHOLE_TAG}={quote(tag)}"
    return f"{match[1]}={quote(match[2])}"
