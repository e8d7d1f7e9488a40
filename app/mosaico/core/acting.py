"""Who acts in the present request: the ID of an API key or a person. A job of the service acts for nobody."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_actor: ContextVar[str | None] = ContextVar("actor", default=None)


def current_actor() -> str | None:
    """The ID of the key or the person of the present request; None outside of one."""
    return _actor.get()


@contextmanager
def acting_as(actor_id: str | None) -> Iterator[None]:
    """Let what this block changes be the work of a key or a person."""
    before = _actor.set(actor_id)
    try:
        yield
    finally:
        _actor.reset(before)
