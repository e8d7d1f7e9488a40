"""Names of resources as a form offers them: those of the newest, with the number of all."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Select
from sqlalchemy.orm import InstrumentedAttribute, Session

from mosaico.core.keyset import MAX_LIMIT
from mosaico.core.row_counts import count_rows

V = TypeVar("V")


class NameChoices(list[tuple[str, str]]):
    """Values with their texts. `total` says how many there are where these are not all, and `page` lists them."""

    def __init__(self, choices: Iterable[tuple[str, str]], total: str, page: str) -> None:
        super().__init__(choices)
        self.total, self.page = total, page


class Names(dict[str, str]):
    """Names by ID; `total` and `page` are those of `NameChoices`."""

    def __init__(self, names: Iterable[tuple[str, str]], page: str, total: str = "") -> None:
        super().__init__(names)
        self.total, self.page = total, page

    def choices(self, *before: tuple[str, str]) -> NameChoices:
        """The names as choices, after those `before`."""
        return NameChoices([*before, *self.items()], self.total, self.page)


def list_newest_names(
    session: Session,
    rows: Select[str, V],
    keys: Sequence[InstrumentedAttribute[Any]],
    page: str,
    name_of: Callable[[str, V], str],
    noun: str = "",
) -> Names:
    """The names of the newest rows, by `keys`. `rows` selects the ID of each resource and a value, from which `name_of`
    makes the name. `page` is the address of their list, and `noun` the plural of their kind, with which it ends otherwise.
    """
    first = session.execute(rows.order_by(*(key.desc() for key in keys)).limit(MAX_LIMIT + 1)).all()
    names = ((row_id, name_of(row_id, named)) for row_id, named in first[:MAX_LIMIT])
    if len(first) <= MAX_LIMIT:
        return Names(names, page)
    return Names(names, page, f"{count_rows(session, rows)} {noun or page.removeprefix('/')}")
