"""The heartbeat: one call of a real server for a minute, made only while a scheduler and a worker do their work."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mosaico.core.encryption import Secret
from mosaico.core.network_policy import PUBLIC_ONLY, OutboundPolicy, parse_networks
from mosaico.core.resources import Resources
from mosaico.overview.diagnosis import CheckFailed, check_heartbeat
from mosaico.schedules.heartbeat import HeartbeatFailed, enqueue_heartbeat, send
from tests.integration.schedules.conftest import NIGHTLY
from tests.support.http import serving
from tests.support.service import Service
from tests.support.stored import DatabaseReader

SECRET_PATH = "/ping/5f0c8a52"
JOBS = "SELECT status::text FROM procrastinate_jobs WHERE queue_name = 'heartbeat' ORDER BY id"

MINUTES = "SELECT args ->> 'minute' FROM procrastinate_jobs WHERE queue_name = 'heartbeat'"


class Switch:
    """A dead man's switch: it remembers the calls, and answers with `status`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.status = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.calls.append((request.method, request.url.path))
        await Response("OK", self.status)(scope, receive, send)


@dataclass
class Watched:
    """A service that calls a switch."""

    service: Service
    switch: Switch
    res: Resources


@pytest.fixture
def watched(prepared_service: Service) -> Iterator[Watched]:
    switch = Switch()
    with serving(switch) as client:
        res = replace(
            prepared_service.resources,
            heartbeat_url=Secret(str(client.base_url.join(SECRET_PATH))),
            outbound=OutboundPolicy(allowed=parse_networks("127.0.0.0/8")),
        )
        yield Watched(replace(prepared_service, resources=res), switch, res)


def statuses(rows: DatabaseReader) -> list[str]:
    return [status for (status,) in rows.all(JOBS)]


def forget_this_minute(rows: DatabaseReader) -> None:
    """Let the present minute be one without a call."""
    rows.execute('UPDATE procrastinate_jobs SET args = \'{"minute": "2020-01-01T00:00:00Z"}\'')


def test_heartbeat__is_called_once_in_a_minute_whatever_the_number_of_schedulers(
    watched: Watched, rows: DatabaseReader
) -> None:
    with ThreadPoolExecutor(4) as schedulers:
        list(schedulers.map(enqueue_heartbeat, [watched.res] * 20))
    watched.service.work()
    # One, or two if the minute ended meanwhile.
    minutes = rows.all(MINUTES)
    assert len(minutes) == len(set(minutes)) >= 1
    assert watched.switch.calls == [("GET", SECRET_PATH)] * len(minutes)
    assert "was called" in check_heartbeat(watched.res)


def test_heartbeat__without_a_worker_is_not_called_and_waits_once(
    watched: Watched, rows: DatabaseReader
) -> None:
    assert enqueue_heartbeat(watched.res)
    forget_this_minute(rows)
    assert not enqueue_heartbeat(watched.res)
    assert statuses(rows) == ["todo"]
    assert watched.switch.calls == []
    with pytest.raises(CheckFailed, match="never called"):
        check_heartbeat(watched.res)
    # What waited for hours says nothing about now.
    watched.service.work()
    assert watched.switch.calls == []
    assert statuses(rows) == ["failed"]


def test_heartbeat__is_not_called_while_a_schedule_is_overdue(
    watched: Watched, rows: DatabaseReader
) -> None:
    watched.service.post("/schedule-configs", {"id": "s-1", **NIGHTLY})
    late = datetime.now(UTC) - timedelta(minutes=6)
    rows.execute("UPDATE schedule_configs SET next_run_at = %s", late)
    assert not enqueue_heartbeat(watched.res)
    rows.execute("UPDATE schedule_configs SET next_run_at = now() + interval '1 hour'")
    assert enqueue_heartbeat(watched.res)


def test_heartbeat__that_fails_is_found_by_doctor_and_the_next_one_is_made(
    watched: Watched, rows: DatabaseReader
) -> None:
    watched.switch.status = 500
    enqueue_heartbeat(watched.res)
    watched.service.work()
    with pytest.raises(CheckFailed, match="failed"):
        check_heartbeat(watched.res)
    watched.switch.status = 200
    forget_this_minute(rows)
    assert enqueue_heartbeat(watched.res)
    watched.service.work()
    assert statuses(rows) == ["failed", "succeeded"]
    assert "was called" in check_heartbeat(watched.res)


def test_heartbeat__has_the_rules_of_outgoing_calls_and_hides_its_url(watched: Watched) -> None:
    now = datetime.now(UTC)
    with pytest.raises(HeartbeatFailed) as refused:
        send(replace(watched.res, outbound=PUBLIC_ONLY), now)
    assert watched.switch.calls == []
    closed = Secret(f"http://127.0.0.1:1{SECRET_PATH}")
    with pytest.raises(HeartbeatFailed) as unreachable:
        send(replace(watched.res, heartbeat_url=closed), now)
    assert SECRET_PATH not in f"{refused.value}{unreachable.value}"


def test_heartbeat__without_a_url_does_nothing(
    prepared_service: Service, rows: DatabaseReader
) -> None:
    assert not enqueue_heartbeat(prepared_service.resources)
    assert statuses(rows) == []
    assert "MOSAICO_HEARTBEAT_URL" in check_heartbeat(prepared_service.resources)
