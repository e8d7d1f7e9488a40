"""Who sees which benchmarks: a limited caller reads and writes as a database role that sees only their rows.

The policies of the tables are the one place that decides, for each statement of each route, page, export and stream.
A caller without limits uses the role of the service, to which no policy applies. Source: PostgreSQL, row security
policies.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.core.errors import Forbidden

LIMITED_ROLE: Final = "mosaico_limited"
VISIBLE_ROWS: Final = "visible_rows"  # the policy of each table
Visible = tuple[str, ...] | None  # IDs of benchmarks; None for all


class OutsideLimit(Forbidden):
    """This key or person is limited to some benchmarks, and that belongs to another one, or to none."""


FindIds = Callable[[Session, Collection[str]], Collection[str]]
# Benchmarks are a higher layer, which registers here who finds those that exist.
BENCHMARK_FINDERS: Final[list[FindIds]] = []

Key = TypeVar("Key")
Value = TypeVar("Value")

_visible: ContextVar[Visible] = ContextVar("visible_benchmarks", default=None)

_LIMIT: Final = text(
    "SELECT set_config('mosaico.benchmarks', :benchmarks, true), set_config('role', :role, true)"
)
# Whoever has the privileges of the role, without SET ROLE, has its policies, too; not the owner of the tables.
_INHERITS_LIMITS: Final = text(
    """
    SELECT EXISTS (
        SELECT FROM pg_policies JOIN pg_roles ON rolname = :role
        WHERE policyname = :policy AND schemaname = current_schema() AND pg_has_role(pg_roles.oid, 'USAGE')
    ) AND row_security_active('benchmarks')
    """
)
_HAS_LIMITS: Final = text(
    """
    SELECT EXISTS (
        SELECT FROM pg_policies JOIN pg_roles ON rolname = :role
        WHERE policyname = :policy AND schemaname = current_schema() AND pg_has_role(pg_roles.oid, 'SET')
    )
    """
)


def current_limit() -> Visible:
    """The benchmarks that the caller of the present request sees; None for all."""
    return _visible.get()


@contextmanager
def limited_to(visible: Visible) -> Iterator[None]:
    """Let every transaction of this block see these benchmarks only; None for all."""
    before = _visible.set(visible)
    try:
        yield
    finally:
        _visible.reset(before)


def find_benchmark_ids(session: Session, ids: Collection[str]) -> set[str]:
    """The given IDs that a benchmark has."""
    return {benchmark_id for find in BENCHMARK_FINDERS for benchmark_id in find(session, ids)}


def limit_session(session: Session) -> None:
    """Limit the transaction of a session to what its caller sees; nothing happens without a limit."""
    visible = current_limit()
    if visible is not None:
        session.execute(_LIMIT, {"benchmarks": json.dumps(visible), "role": LIMITED_ROLE})


def lift_limit(session: Session, *, visible: str = "SELECT", **parameters: object) -> None:
    """Let the rest of a transaction write rows that its caller cannot see yet, if `visible`, a statement with a row
    or none, finds what they will belong to; nothing happens without a limit. The default is for rows that are made of
    what the caller sees. Raises: `OutsideLimit`.
    """
    if current_limit() is None:
        return
    if session.execute(text(visible), parameters).first() is None:
        raise OutsideLimit
    session.execute(text("SET LOCAL ROLE NONE"))


def limited_reader(
    read: Callable[[Sequence[Key]], Mapping[Key, Value]],
) -> Callable[[Sequence[Key]], Mapping[Key, Value]]:
    """A reader with the limit of the present request, for a call outside of it."""
    visible = current_limit()

    def read_limited(keys: Sequence[Key]) -> Mapping[Key, Value]:
        with limited_to(visible):
            return read(keys)

    return read_limited


def has_limits(session: Session) -> bool:
    """Return whether the policies are installed, and this service may use the role of limited callers."""
    parameters = {"role": LIMITED_ROLE, "policy": VISIBLE_ROWS}
    return bool(session.scalar(_HAS_LIMITS, parameters))


def inherits_limits(session: Session) -> bool:
    """Return whether the policies hide rows from the role of this service itself, which then sees no benchmark."""
    parameters = {"role": LIMITED_ROLE, "policy": VISIBLE_ROWS}
    return bool(session.scalar(_INHERITS_LIMITS, parameters))
