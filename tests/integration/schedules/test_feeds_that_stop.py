"""Feeds that stop, on their real paths: each is stale after two due times, in the inbox and on Morning."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mosaico import worker
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.langfuse.source_benchmarks import agent
from tests.support.otlp import PROTOBUF, export, span
from tests.support.page_reads import read_page
from tests.support.service import JSON, Service, pair
from tests.support.stored import DatabaseReader

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
SAME_DATA = "The last run read the same data again."
NO_TRACES = "The last run failed: NO_TRACES: "


@pytest.fixture(scope="module")
def running_langfuse() -> Iterator[FakeLangfuse]:
    with run_fake_langfuse() as running:
        yield running


@pytest.fixture
def langfuse(running_langfuse: FakeLangfuse) -> FakeLangfuse:
    running_langfuse.reset()
    return running_langfuse


@pytest.fixture
def last_night(service: Service) -> datetime:
    """A due time of the cron expression in the last 24 hours."""
    now = service.resources.clock()
    today = now.replace(hour=2, minute=0, second=0, microsecond=0)
    return today if today < now - HOUR else today - DAY


class Nights:
    """A schedule that is due at 02:00, by the scheduler and the worker."""

    def __init__(
        self, service: Service, rows: DatabaseReader, tick: Callable[[datetime], int]
    ) -> None:
        self.service, self.rows, self.tick = service, rows, tick

    def schedule(self, first: datetime, **fields: Any) -> None:
        self.service.post(
            "/schedule-configs",
            {
                "id": "nightly", "name": "nightly", "benchmarkId": "bench-001", "agentId": "agent-001",
                "cronExpression": "0 0 2 * * *", **fields,
            },
        )  # fmt: skip
        self.rows.execute("UPDATE schedule_configs SET next_run_at = %s", first)

    def pass_night(self, due: datetime) -> JSON | None:
        """The run of a night, which ends ten minutes after its due time; None without one."""
        assert self.tick(due) == 1
        self.service.work()
        self.rows.execute(
            "UPDATE benchmark_runs AS run SET completed_at = fire.due_at + interval '10 minutes'"
            " FROM schedule_fires AS fire WHERE fire.run_id = run.id"
        )
        self.rows.execute("UPDATE schedule_fires SET fired_at = due_at")
        runs = self.service.list_items("/benchmark-runs", limit=1)
        [fire] = self.rows.all("SELECT run_id FROM schedule_fires ORDER BY due_at DESC LIMIT 1")
        return next((run for run in runs if (run["id"],) == tuple(fire)), None)

    def report(self, now: datetime) -> list[JSON]:
        """The alerts after two checks by workers."""
        resources = replace(self.service.resources, clock=lambda: now)
        for _ in range(2):
            worker._report_stale_agents(resources)
        return self.service.list_items("/alerts", state="STALE")


@pytest.fixture
def nights(service: Service, rows: DatabaseReader, tick: Callable[[datetime], int]) -> Nights:
    return Nights(service, rows, tick)


def send_spans(
    service: Service, rows: DatabaseReader, at: datetime, dataset: str | None = None
) -> None:
    """Spans of ten requests over the receiver, with the times that they would have, had they come then."""
    start = int(at.timestamp()) * 1_000_000_000
    # A production trace names no run.
    names: dict[str, Any] = (
        {"mosaico__dataset": dataset, "mosaico__run": "monday"} if dataset else {}
    )
    spans = []
    for number in range(10):
        item: dict[str, Any] = {"mosaico__item_id": f"i{number}"} if dataset else {}
        spans.append(span(trace=f"{number + 1:x}", start_ns=start, **names, **item))
    body = export(spans, {"service.name": "pelican"})
    assert service.client.post("/v1/traces", content=body, headers=PROTOBUF).is_success
    times = "occurred_at = %s, first_received_at = %s, last_received_at = %s"
    rows.execute(f"UPDATE otel_traces SET {times}", at, at, at)


def upload(service: Service, rows: DatabaseReader, first: datetime, langfuse: FakeLangfuse) -> JSON:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    service.upload([pair(1)], run_name="monday")
    return {}


def production_window(
    service: Service, rows: DatabaseReader, first: datetime, langfuse: FakeLangfuse
) -> JSON:
    service.create_agent(otelServiceName="pelican")
    service.create_benchmark(
        source="otel", datasetRef=None, metrics=["LATENCY"], production={"since": "24h"}
    )
    send_spans(service, rows, first - 6 * HOUR)
    return {}


def service_that_stopped(
    service: Service, rows: DatabaseReader, first: datetime, langfuse: FakeLangfuse
) -> JSON:
    service.create_agent(otelServiceName="pelican")
    service.create_benchmark(source="otel", datasetRef="capitals", metrics=["LATENCY"])
    send_spans(service, rows, first - HOUR, dataset="capitals")
    return {}


def langfuse_run(
    service: Service, rows: DatabaseReader, first: datetime, langfuse: FakeLangfuse
) -> JSON:
    langfuse.experiment(run="nightly-1", items=5)
    agent(service, langfuse)
    service.create_benchmark(source="langfuse", metrics=["ACCURACY"])
    return {}


def langfuse_pattern(
    service: Service, rows: DatabaseReader, first: datetime, langfuse: FakeLangfuse
) -> JSON:
    langfuse_run(service, rows, first, langfuse)
    return {"runNamePattern": "nightly-*"}


def langfuse_production(
    service: Service, rows: DatabaseReader, first: datetime, langfuse: FakeLangfuse
) -> JSON:
    for number in range(10):
        langfuse.production_trace(number, started=first - 6 * HOUR, scores={"Tone": 0.9})
    agent(service, langfuse)
    service.create_benchmark(
        source="langfuse", datasetRef=None, metrics=["LATENCY"], production={"since": "24h"}
    )
    return {}


# One feed of each way to have no new data; `make prove` stops the others, too.
@pytest.mark.parametrize(
    ("set_up", "found"),
    [
        (upload, SAME_DATA),
        (production_window, NO_TRACES),
        (langfuse_pattern, "No run has ended since then."),
        pytest.param(service_that_stopped, SAME_DATA, marks=pytest.mark.prove),
        pytest.param(langfuse_run, SAME_DATA, marks=pytest.mark.prove),
        pytest.param(langfuse_production, NO_TRACES, marks=pytest.mark.prove),
    ],
)
def test_feed_that_stops__is_stale_in_the_inbox_and_on_morning(
    service: Service,
    rows: DatabaseReader,
    nights: Nights,
    langfuse: FakeLangfuse,
    last_night: datetime,
    set_up: Callable[..., JSON],
    found: str,
) -> None:
    first, second, third = (last_night - number * DAY for number in (2, 1, 0))
    nights.schedule(first, **set_up(service, rows, first, langfuse))
    run = nights.pass_night(first)
    assert run is not None
    assert (run["status"], run["validity"], run["hasNewData"]) == ("COMPLETED", "VALID", True)
    again = nights.pass_night(second)
    assert again is None or not again["hasNewData"]
    assert nights.report(second + HOUR) == []
    assert service.get("/overview")["stale"] == []
    last = nights.pass_night(third)
    [alert] = nights.report(third + HOUR)
    assert (alert["agentId"], alert["runId"]) == ("agent-001", last["id"] if last else None)
    assert found in alert["explanation"]
    # In the inbox, to nobody else, and on Morning.
    titles = [note["title"] for note in service.list_items("/notifications")]
    assert sum("no new data" in title for title in titles) == 1
    assert service.list_items("/deliveries") == []
    [stale] = service.get("/overview")["stale"]
    assert (stale["agentId"], stale["benchmarkId"]) == ("agent-001", "bench-001")
    assert "no new data since" in read_page(service, "/")
    assert "no new data" in read_page(service, "/inbox")
