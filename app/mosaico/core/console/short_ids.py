"""IDs as people write them: `latest`, the beginning that tables show, or the name of the resource."""

import re
from collections.abc import Sequence

LATEST = "latest"
# Of these the service makes all IDs, so that `latest` is none of them; lists are newest first.
GENERATED_ID_LISTS = frozenset({"/alerts", "/benchmark-runs", "/incidents", "/notifications"})
# Of these a person chooses the names, by which a command finds the ID.
NAMED_LISTS = frozenset({"/agents", "/alert-configs", "/benchmarks", "/schedule-configs"})
ARCHIVABLE_LISTS = frozenset({"/agents", "/benchmarks"})
SHORT_LENGTH = 13
FULL_LENGTH = 36
_FULL_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHORT_ID = re.compile(rf"[0-9a-f]{{8}}-[0-9a-f-]{{4,{FULL_LENGTH - 10}}}")
# Nobody names a resource of a generated list, so that a shorter text can be nothing else.
_GENERATED_SHORT_ID = re.compile(
    rf"[0-9a-f]{{2,8}}|[0-9a-f]{{8}}-[0-9a-f-]{{0,{FULL_LENGTH - 10}}}"
)


def is_short_id(text: str, path: str) -> bool:
    """Return whether a text may be the beginning of an ID of the list at `path`."""
    pattern = _GENERATED_SHORT_ID if path in GENERATED_ID_LISTS else _SHORT_ID
    return pattern.fullmatch(text) is not None


def may_be_name(text: str, path: str) -> bool:
    """Return whether a text may be the name of a resource of the list at `path`."""
    return path in NAMED_LISTS and _FULL_ID.fullmatch(text) is None


def shorten_ids(cells: Sequence[str]) -> list[str]:
    """The cells of a column; IDs are cut to a length at which they differ from each other.

    Cells that are not IDs stay as they are.
    """
    ids = {cell for cell in cells if _FULL_ID.fullmatch(cell)}
    length = SHORT_LENGTH
    while len({cell[:length] for cell in ids}) < len(ids):
        length += 1
    return [cell[:length].rstrip("-") if cell in ids else cell for cell in cells]
