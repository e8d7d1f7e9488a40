"""The columns that the user names for the fields of a table: `output=answer,expected=gold`; pure."""

import re
from collections.abc import Iterable
from typing import Final

from mosaico.core.errors import Invalid
from mosaico.core.registry import suggest_names
from mosaico.traces.files.column_words import Certainty, certainty_of
from mosaico.traces.files.field_names import NAMES, SCORE_FIELD, TEXT_FIELDS
from mosaico.traces.object_text import normalize_name


class InvalidMapping(Invalid):
    """The named columns do not fit the file; write FIELD=COLUMN with a column of the file."""

    exit_code = 2


# A comma before the next field: a path may contain commas, too.
_PAIR_END: Final = re.compile(r",(?=\s*[A-Za-z]+(?:\[[^\]]*\])?\s*=)|,\s*$")


def parse_mapping(texts: Iterable[str]) -> dict[str, str]:
    """The columns by field of `output=answer,expected=gold`; an empty column means: none. `scores[tone]=column` names a
    score.

    Raises: `InvalidMapping` for another form and for an unknown field.
    """
    mapping: dict[str, str] = {}
    for pair in (pair for text in texts for pair in _PAIR_END.split(text) if pair.strip()):
        name, equals, column = (part.strip() for part in pair.partition("="))
        if not equals:
            raise InvalidMapping(
                f"{pair.strip()!r} does not have the form FIELD=COLUMN, such as output=answer"
            )
        require_fields([name])
        if name in mapping:
            raise InvalidMapping(f"the field {name} is mapped twice; keep one of them")
        mapping[name] = column
    return mapping


def require_fields(names: Iterable[str]) -> None:
    """Raise `InvalidMapping` for a name that is not a field of a table."""
    for name in names:
        if name not in NAMES and not SCORE_FIELD.fullmatch(name):
            raise InvalidMapping(
                f"no field is named {name!r}.{_suggest_field(name)}"
                f" Fields: {', '.join(NAMES)}, scores[NAME]."
            )


def _suggest_field(name: str) -> str:
    """The field that a column of this name would hold, such as `input` for `question`; otherwise names like it."""
    texts = [field for field in TEXT_FIELDS if certainty_of(name, field) is not Certainty.NONE]
    fields = [field for field, names in NAMES.items() if normalize_name(name) in names] or texts
    return f" Did you mean {fields[0]}?" if fields else suggest_names(name, list(NAMES))
