"""Places in which a worker is killed that sends requests to the server of somebody else."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from tests.support.stored import DatabaseReader, HeldLock


class KillPoint(NamedTuple):
    """The place in which a worker is killed.

    It is about to write a row inside a transaction (`write`, `condition`), or waits for the
    response of the server (no write). The server gets `calls` requests in total.
    """

    write: str | None
    condition: str
    calls: int

    def of(self, **names: str) -> "KillPoint":
        """The place of one rule, endpoint or benchmark, which the condition names in braces."""
        return self._replace(condition=self.condition.format(**names))


@contextmanager
def blocked_at(
    database: DatabaseReader, points: Mapping[str, KillPoint], function: str = "wait_for_lock"
) -> Iterator[dict[str, HeldLock]]:
    """Block the workers that reach these places; the server blocks those without a write."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                database.blocked_write(
                    name, event=point.write, condition=point.condition, function=function
                )
            )
            for name, point in points.items()
            if point.write is not None
        }
