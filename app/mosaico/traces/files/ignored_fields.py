"""Names the fields of imported results that are not used, so that no value is lost silently."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

MAX_NAMES: Final = 20
# A file can have a new name on every line.
MAX_COUNTED: Final = 10_000
_MAX_NAME_CHARS: Final = 80
NOT_USED: Final = "that are not used"


class IgnoredFields:
    """Collects the fields of objects that are not in `read`, with the first object that has them.

    A field without content is left out: nothing is lost. `prefix` precedes the names in messages. `names` are the
    first ones, `count` is the number of all.
    """

    def __init__(self, read: Collection[str], prefix: str = "") -> None:
        self._known = set(read)
        self._prefix = prefix
        self.names: list[str] = []
        self.count = 0

    def check(self, fields: Mapping[str, Any]) -> None:
        """Add the fields of an object."""
        if fields.keys() <= self._known or self.count >= MAX_COUNTED:
            return
        names = [name for name in fields if name not in self._known and _has_content(fields[name])]
        self._known.update(names)
        self.count += len(names)
        self.names += (f"{self._prefix}{name[:_MAX_NAME_CHARS]}" for name in names)
        del self.names[MAX_NAMES:]


def describe_ignored(noun: str, *ignored: IgnoredFields) -> Iterator[str]:
    """A sentence about all fields that are not used; none without such a field."""
    names = [name for fields in ignored for name in fields.names][:MAX_NAMES]
    if names:
        yield f"{noun} {NOT_USED}: {', '.join(names)}{describe_more(sum(f.count for f in ignored) - len(names))}"


def describe_more(count: int) -> str:
    """How many names are not listed: " and 5 more"; empty without any."""
    if count <= 0:
        return ""
    return f" and {'at least ' if count >= MAX_COUNTED - MAX_NAMES else ''}{count:,} more"


def _has_content(value: Any) -> bool:
    # Compared by type: 0 and false are values.
    return value is not None and not (isinstance(value, str | list | dict) and not value)
