"""A Langfuse of the tests' own on loopback: deterministic, in memory, and faulty when asked.

`stand_in()` starts one. What it knows is put there by `StandIn.experiment`, or written by clients:

    with stand_in() as langfuse:
        run = langfuse.experiment(dataset="support", run="night 1/ö,x", items=250, errors={3})
        langfuse.inject(RateLimited(retry_after_s=1), path="/experiment-items", on={2})
        …a client of langfuse.url with langfuse.public_key and langfuse.secret_key…
        assert len(langfuse.asked_for("/experiment-items")) == 4

The faults are in `mishaps`; a path of the log and of a fault is without `/api/public`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.http import serving
from tests.support.langfuse.builder import StandIn
from tests.support.langfuse.generated import ScorePlan
from tests.support.langfuse.routes import Mode
from tests.support.langfuse.server import Asked, Server

__all__ = ["Asked", "Mode", "ScorePlan", "StandIn", "stand_in"]

VERSIONS: dict[Mode, str] = {"events_only": "4.16.0", "dual": "4.16.0", "v3": "3.140.0"}


@contextmanager
def stand_in(mode: Mode = "events_only", *, takes_score_lists: bool = False) -> Iterator[StandIn]:
    """A server of one generation, or of both at once, until the block ends.

    `takes_score_lists`: whether it is new enough for the score batches of SDK 5.
    """
    server = Server(mode=mode, version=VERSIONS[mode], takes_score_lists=takes_score_lists)
    with serving(server) as client:
        try:
            yield StandIn(server=server, url=str(client.base_url).rstrip("/"))
        finally:
            server.closing = True
