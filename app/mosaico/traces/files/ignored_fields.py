"""Names the fields of imported results that are not used, so that no value is lost silently."""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final

# A file can have a new name on every line.
MAX_NAMES: Final = 20
_MAX_NAME_CHARS: Final = 80
NOT_USED: Final = "that are not used"


class IgnoredFields:
    """Collects the fields of objects that are not in `read`, with the first object that has them.

    A field without content is left out: nothing is lost. `prefix` precedes the names in messages.
    """

    def __init__(self, read: Collection[str], prefix: str = "") -> None:
        self._known = set(read)
        self._prefix = prefix
        self.names: list[str] = []

    def check(self, fields: Mapping[str, Any]) -> None:
        """Add the fields of an object."""
        if fields.keys() <= self._known or len(self.names) == MAX_NAMES:
            return
        names = [name for name in fields if name not in self._known and _has_content(fields[name])]
        self._known.update(names)
        self.names += (f"{self._prefix}{name[:_MAX_NAME_CHARS]}" for name in names)
        del self.names[MAX_NAMES:]


def describe_ignored(noun: str, *ignored: IgnoredFields) -> Iterator[str]:
    """A sentence about all fields that are not used; none without such a field."""
    names = [name for fields in ignored for name in fields.names]
    if names:
        more = "" if len(names) < MAX_NAMES else " …"
        yield f"{noun} {NOT_USED}: {', '.join(islice(names, MAX_NAMES))}{more}"


def _has_content(value: Any) -> bool:
    # Compared by type: 0 and false are values.
    return value is not None and not (isinstance(value, str | list | dict) and not value)
