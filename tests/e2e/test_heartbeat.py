"""The heartbeat of real processes: the calls come while a scheduler and a worker run, and stop with either."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tests.support.http import serving
from tests.support.processes import MASTER_KEY, programs, until
from tests.support.service import Service
from tests.support.stored import DatabaseReader

WAITING = (
    "SELECT count(*) FROM procrastinate_jobs WHERE queue_name = 'heartbeat' AND status = 'todo'"
)
# The minute of each job is over: a scheduler that starts now finds a minute without a call.
FORGET_MINUTES = """
    UPDATE procrastinate_jobs SET args = jsonb_set(args, '{minute}', '"2020-01-01T00:00:00Z"')
    WHERE queue_name = 'heartbeat' AND status <> 'todo'
"""


class Switch:
    """A dead man's switch: it counts its calls."""

    calls = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert Request(scope, receive).url.path == "/ping"
        self.calls += 1
        await Response("OK")(scope, receive, send)


def test_heartbeat__stops_when_the_worker_is_killed_and_goes_on_with_the_next(
    service: Service, tmp_path: Path
) -> None:
    switch, rows = Switch(), DatabaseReader(service.resources.db.url)
    with (
        serving(switch) as client,
        programs(
            tmp_path,
            DATABASE_URL=service.resources.db.url,
            MOSAICO_MASTER_KEY=MASTER_KEY,
            MOSAICO_OUTBOUND_ALLOW="127.0.0.0/8",
            MOSAICO_HEARTBEAT_URL=str(client.base_url.join("/ping")),
        ) as started,
    ):
        worker = started.worker()
        assert switch.calls == 0
        scheduler = started.start("scheduler")
        until(lambda: switch.calls > 0, what=f"{worker.log}\n{scheduler.log}")

        worker.kill()
        scheduler.kill()
        calls = switch.calls
        rows.execute(FORGET_MINUTES)
        another = started.start("scheduler")
        # It has done its part, and nobody makes the call.
        until(lambda: rows.value(WAITING) == 1, what=another.log)
        assert switch.calls == calls

        next_worker = started.worker()
        until(lambda: switch.calls > calls, what=next_worker.log)
