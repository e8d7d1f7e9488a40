"""A fake Langfuse server on loopback: deterministic, in memory, with injectable faults.

`run_fake_langfuse()` starts it. `FakeLangfuse.experiment` or clients add its data:

    with run_fake_langfuse() as langfuse:
        run = langfuse.experiment(dataset="support", run="run 1/ö,x", items=250, errors={3})
        langfuse.inject(RateLimited(retry_after_s=1), path="/experiment-items", on={2})
        …a client of langfuse.url with langfuse.public_key and langfuse.secret_key…
        assert len(langfuse.requests_for("/experiment-items")) == 4

`faults` defines the faults. Paths of recorded requests and of faults omit `/api/public`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.http import serving
from tests.support.langfuse.builder import FakeLangfuse
from tests.support.langfuse.generated import ScorePlan
from tests.support.langfuse.routes import Mode
from tests.support.langfuse.server import FakeServer, RecordedRequest

__all__ = ["FakeLangfuse", "Mode", "RecordedRequest", "ScorePlan", "run_fake_langfuse"]

VERSIONS: dict[Mode, str] = {"events_only": "4.16.0", "dual": "4.16.0", "v3": "3.140.0"}


@contextmanager
def run_fake_langfuse(
    mode: Mode = "events_only", *, takes_score_lists: bool = False
) -> Iterator[FakeLangfuse]:
    """Run a server of one API version, or of both, until the block ends.

    `takes_score_lists`: whether it accepts the score lists of SDK 5.
    """
    server = FakeServer(mode=mode, version=VERSIONS[mode], takes_score_lists=takes_score_lists)
    with serving(server) as client:
        try:
            yield FakeLangfuse(server=server, url=str(client.base_url).rstrip("/"))
        finally:
            server.closing = True
