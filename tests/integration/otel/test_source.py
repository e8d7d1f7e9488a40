"""The trace source `otel`: experiments and production traces from received spans."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from sqlalchemy import select

from mosaico.core.resources import Resources
from mosaico.runs.erasure import ErasureSubject, erase_texts
from mosaico.traces.models import OtelSpan
from mosaico.traces.otel.export_body import decode_body
from mosaico.traces.otel.service import delete_expired_traces, store_spans
from mosaico.traces.production import ProductionTraces, TraceFilters, TraceWindow
from mosaico.traces.registry import CollectionFailed, TraceQuery
from mosaico.traces.sources.otel import OtelSource, list_runs
from mosaico.traces.types import Trace
from tests.support.otlp import encode_spans, export, span
from tests.support.service import Service

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
NOON_NS = int(NOON.timestamp()) * 1_000_000_000
MINUTE_NS = 60_000_000_000
RUN = TraceQuery(dataset_ref="capitals", run_name=None)


def receive(
    resources: Resources,
    spans: Sequence[Span],
    at: datetime = NOON,
    resource: dict[str, Any] | None = None,
) -> None:
    encoded = encode_spans(decode_body(export(spans, resource), "application/x-protobuf"))
    with resources.db.begin() as session:
        store_spans(session, encoded, at)


class Clock:
    """A clock that a paused source moves forward."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def read(
    resources: Resources, query: TraceQuery, now: datetime = NOON + timedelta(hours=1)
) -> list[Trace]:
    return [trace for page in pages(resources, query, Clock(now)) for trace in page]


def pages(resources: Resources, query: TraceQuery, clock: Clock) -> list[tuple[Trace, ...]]:
    source = OtelSource(resources=replace(resources, clock=clock), pause=clock.pause)
    return [page.traces for page in source.pages(query, None)]


def window(
    minutes: int = 60, sample: int | None = None, seed: int = 0, **filters: Any
) -> TraceQuery:
    production = ProductionTraces(
        window=TraceWindow(from_=NOON, to=NOON + timedelta(minutes=minutes)),
        filters=TraceFilters(**filters),
        sample_size=sample,
        seed=seed,
    )
    return TraceQuery(dataset_ref=None, run_name=None, production=production)


def item(trace: str, item_id: str, run: str = "r-1", **more: Any) -> Span:
    names = {"mosaico__dataset": "capitals", "mosaico__run": run, "mosaico__item_id": item_id}
    return span(trace=trace, **{"start_ns": NOON_NS, **names, **more})


def test_otel_run__items_of_one_trace_are_traces_of_their_own(
    service_resources: Resources,
) -> None:
    receive(
        service_resources,
        [
            span("experiment", trace="a", span_id="1", start_ns=NOON_NS),
            item("a", "it", span_id="2", parent="1", output__value="Rome"),
            # A span processor often copies the attributes to every span below.
            item("a", "it", span_id="3", parent="2", gen_ai__operation__name="chat"),
            item("a", "fr", span_id="4", parent="1", output__value="Paris"),
        ],
    )
    traces = read(service_resources, RUN)
    assert {trace.item_id: (trace.output, trace.turns) for trace in traces} == {
        "it": ("Rome", 1),
        "fr": ("Paris", None),
    }
    assert len({trace.trace_id for trace in traces}) == 2


def test_otel_run__dataset_and_run_of_the_resource_count(service_resources: Resources) -> None:
    resource = {"mosaico.dataset": "capitals", "mosaico.run": "of the resource"}
    receive(service_resources, [span(start_ns=NOON_NS, mosaico__item_id="it")], resource=resource)
    [run] = list_runs(service_resources, RUN)
    assert (run.name, run.items) == ("of the resource", 1)


def test_otel_run__newest_run_is_read_after_it_has_ended(service_resources: Resources) -> None:
    receive(service_resources, [item("a", "it", "old")])
    receive(service_resources, [item("b", "it", "new", start_ns=NOON_NS + MINUTE_NS)])
    [new, old] = list_runs(replace(service_resources, clock=lambda: NOON), RUN)
    assert [(run.name, run.complete) for run in (new, old)] == [("new", False), ("old", False)]
    read_pages = pages(service_resources, RUN, Clock(NOON + timedelta(seconds=25)))
    # Five heartbeats until half a minute has passed without a span.
    assert [len(page) for page in read_pages] == [0, 0, 0, 0, 0, 1]
    assert read_pages[-1][0].trace_id.endswith("b")


# From 25 s on a heartbeat each 5 s, until 30 s, 60 s or `settle_for` without a span have passed.
@pytest.mark.parametrize(
    ("settings", "heartbeats"),
    [
        ({}, 1),
        ({"expect_items": 2, "min_coverage": 0.5}, 1),
        ({"expect_items": 2}, 7),
        ({"expect_items": 2, "settle_for": "2m"}, 19),
        ({"expect_items": "any"}, 1),
        # Answers without the scores that metrics use, and with them.
        ({"score_names": ("tone",)}, 19),
        ({"score_names": ("tone",), "settle_for": "1m"}, 7),
        ({"expect_items": 2, "score_names": ("tone",)}, 19),
        # Longer than any other wait.
        ({"expect_items": 2, "settle_for": "16m"}, 187),
    ],
)
def test_otel_run__that_lacks_items_is_waited_for(
    service_resources: Resources,
    settings: dict[str, Any],
    heartbeats: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mosaico.traces.sources.otel.POLL_S", 5.0)
    receive(service_resources, [item("a", "it")])
    query = replace(RUN, **settings)
    read_pages = pages(service_resources, query, Clock(NOON + timedelta(seconds=25)))
    assert [len(page) for page in read_pages] == [0] * heartbeats + [1]


def test_otel_run__complete_run_ends_the_wait(service_resources: Resources) -> None:
    receive(service_resources, [item("a", "it")])
    clock = Clock(NOON + timedelta(seconds=25))
    second = [item("b", "fr")]

    def pause(seconds: float) -> None:
        clock.pause(seconds)
        if second and clock.now >= NOON + timedelta(seconds=50):
            receive(service_resources, [second.pop()], clock.now)

    source = OtelSource(resources=replace(service_resources, clock=clock), pause=pause)
    read_pages = list(source.pages(replace(RUN, expect_items=2), None))
    # 25 s until the second item, then the usual half a minute.
    assert [len(page.traces) for page in read_pages] == [0] * 55 + [2]


def test_otel_run__of_an_agent_has_the_items_of_its_service(service_resources: Resources) -> None:
    for trace, service in (("a", "bot"), ("b", "other")):
        resource = {"service.name": service}
        receive(service_resources, [item(trace, "it")], resource=resource)
    bot = replace(RUN, service_name="bot")
    [run] = list_runs(service_resources, bot)
    assert run.items == 1
    [trace_of_bot] = read(service_resources, bot)
    assert trace_of_bot.attributes["service.name"] == "bot"
    assert len(read(service_resources, RUN)) == 2
    with pytest.raises(CollectionFailed):
        read(service_resources, replace(RUN, service_name="none"))


def test_otel_window__of_an_agent_has_the_traces_of_its_service(
    service_resources: Resources,
) -> None:
    for trace, service in (("a", "bot"), ("b", "other")):
        spans = [span(trace=trace, start_ns=NOON_NS)]
        receive(service_resources, spans, resource={"service.name": service})
    [trace_of_bot] = read(service_resources, replace(window(), service_name="bot"))
    assert trace_of_bot.attributes["service.name"] == "bot"
    assert read(service_resources, replace(window(name="x"), service_name="bot")) == []
    assert len(read(service_resources, window())) == 2


def test_otel_run__unknown_run_is_refused_with_the_known_ones(
    service_resources: Resources,
) -> None:
    receive(service_resources, [item("a", "it", "night")])
    with pytest.raises(CollectionFailed, match="'night'") as caught:
        read(service_resources, replace(RUN, run_name="day"))
    assert caught.value.error_code == "RUN_NOT_FOUND"


def test_otel_window__adjacent_windows_hold_each_trace_once(service_resources: Resources) -> None:
    # The root comes last, started first, and began before the window of its first spans.
    receive(
        service_resources,
        [span("chat", trace="a", parent="1", start_ns=NOON_NS + 61 * MINUTE_NS)],
        NOON + timedelta(minutes=62),
    )
    receive(
        service_resources,
        [span("agent", trace="a", span_id="1", start_ns=NOON_NS + 59 * MINUTE_NS)],
        NOON + timedelta(minutes=63),
    )
    late = NOON + timedelta(hours=3)
    production = window().production
    assert production is not None
    next_hour = TraceWindow(from_=NOON + timedelta(hours=1), to=NOON + timedelta(hours=2))
    assert read(service_resources, window(), late) == []
    [trace] = read(
        service_resources,
        replace(window(), production=production.model_copy(update={"window": next_hour})),
        late,
    )
    assert trace.attributes["name"] == "agent"


@pytest.mark.parametrize("skew", [timedelta(days=-400), timedelta(days=400)], ids=str)
def test_otel_window__wrong_clock_of_a_client_loses_no_trace(
    service_resources: Resources, skew: timedelta
) -> None:
    start_ns = int((NOON + skew).timestamp()) * 1_000_000_000
    receive(service_resources, [span(start_ns=start_ns)], NOON + timedelta(minutes=1))
    assert len(read(service_resources, window())) == 1


def test_otel_window__root_that_never_comes_is_waited_for_and_replaced(
    service_resources: Resources,
) -> None:
    receive(
        service_resources,
        [
            span("tool", trace="a", span_id="3", parent="2", start_ns=NOON_NS + 2),
            span("agent", trace="a", span_id="2", parent="1", start_ns=NOON_NS, duration_ms=9),
        ],
        NOON + timedelta(minutes=1),
    )
    read_pages = pages(service_resources, window(), Clock(NOON + timedelta(minutes=15)))
    # The last span came at 1 min: 60 s are left of a quarter of an hour.
    assert [len(page) for page in read_pages] == [*[0] * 60, 1]
    assert read_pages[-1][0].latency_ms == 9.0


def test_otel_window__trace_that_stays_open_counts_as_missing(
    service_resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mosaico.traces.sources.otel.MAX_WAIT", timedelta(seconds=10))
    child = span(trace="b", parent="1", start_ns=NOON_NS)
    receive(service_resources, [span(trace="a", start_ns=NOON_NS), child])
    clock = Clock(NOON + timedelta(minutes=1))
    source = OtelSource(resources=replace(service_resources, clock=clock), pause=clock.pause)
    read_pages = []
    for page in source.pages(window(), None):
        receive(service_resources, [child], clock.now)
        read_pages.append(page)
    # Ten heartbeats (MAX_WAIT), then the page.
    assert len(read_pages) == 11
    assert (len(read_pages[-1].traces), read_pages[-1].total) == (1, 2)


def test_otel_window__filters_select_traces_by_any_span(service_resources: Resources) -> None:
    receive(
        service_resources,
        [
            span("agent", trace="a", span_id="1", start_ns=NOON_NS, user__id="u"),
            span("llm", trace="a", parent="1", start_ns=NOON_NS, tag__tags=["beta", "eu"]),
            span("agent", trace="b", start_ns=NOON_NS, session__id="s", metadata='{"k": "v"}'),
        ],
        resource={"deployment.environment.name": "production", "service.version": "7"},
    )
    receive(
        service_resources,
        [span("other", trace="c", start_ns=NOON_NS)],
        resource={"deployment.environment.name": "test"},
    )

    def found(**filters: Any) -> str:
        traces = read(service_resources, window(**filters))
        return "".join(trace.trace_id[-1] for trace in traces)

    assert found() == "abc"
    assert found(environment=["production", "staging"]) == "ab"
    assert found(tags=["eu", "beta"]) == "a"
    assert found(tags=["eu", "us"]) == ""
    assert found(user=["u"], name="agent") == "a"
    assert found(session=["s"]) == found(metadata={"k": "v"}) == "b"
    assert found(version="7", environment=["test"]) == ""
    with pytest.raises(CollectionFailed, match="scores"):
        found(score={"name": "tone", "min": 0.5})


def test_otel_window__sample_depends_on_the_seed_only(
    service_resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mosaico.traces.sources.otel.TRACES_PER_PAGE", 7)
    monkeypatch.setattr("mosaico.traces.sources.otel.KEYS_PER_QUERY", 10)
    spans = [span(trace=f"{number:x}", start_ns=NOON_NS + number) for number in range(1, 201)]
    receive(service_resources, spans)
    samples = [
        [trace.trace_id for trace in read(service_resources, window(sample=30, seed=seed))]
        for seed in (1, 1, 2)
    ]
    assert samples[0] == samples[1] != samples[2]
    assert [len(set(sample)) for sample in samples] == [30, 30, 30]
    assert len(read(service_resources, window(sample=1000))) == 200
    assert len({trace.trace_id for trace in read(service_resources, window())}) == 200


def test_otel_retention__old_traces_are_deleted_with_their_spans(
    service_resources: Resources,
) -> None:
    receive(service_resources, [span(trace="a", start_ns=NOON_NS)], NOON - timedelta(days=31))
    receive(service_resources, [span(trace="b", start_ns=NOON_NS)], NOON)
    deleted = []
    for _ in range(2):
        with service_resources.db.begin() as session:
            deleted.append(delete_expired_traces(session, NOON, keep=timedelta(days=30)))
    assert deleted == [1, 0]
    assert len(read(service_resources, window())) == 1


def test_otel_benchmark__run_over_an_experiment_is_scored(service: Service) -> None:
    receive(
        service.resources,
        [
            item("a", "it", output__value="Rome", mosaico__expected_output="Rome"),
            item("b", "fr", output__value="Lyon", mosaico__expected_output="Paris"),
        ],
    )
    service.create_agent()
    service.create_benchmark(source="otel", datasetRef="capitals", metrics=["ACCURACY"])
    run = service.complete_run()
    assert (run["status"], run["runName"], run["tracesTotal"]) == ("COMPLETED", "r-1", 2)
    [metric] = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert metric["mean"] == 0.5


@pytest.mark.parametrize(
    ("subject", "left"),
    [
        (ErasureSubject(user_id="ada"), {"b", "c"}),
        (ErasureSubject(item_id="it"), {"b"}),
        (ErasureSubject(user_id="nobody"), {"a", "b", "c"}),
    ],
)
def test_erasure__deletes_the_spans_of_a_user_or_an_item(
    service_resources: Resources, subject: ErasureSubject, left: set[str]
) -> None:
    receive(
        service_resources,
        [
            item("a", "it", span_id="1", user__id="ada"),
            # A span of the same trace that names no user.
            span("chat", trace="a", span_id="2", parent="1", start_ns=NOON_NS),
            item("b", "fr", user__id="bob"),
            item("c", "it"),
        ],
    )
    erase_texts(service_resources.db, subject, NOON)
    with service_resources.db.read() as session:
        stored = {trace_id[-1] for trace_id in session.scalars(select(OtelSpan.trace_id))}
    assert stored == left
