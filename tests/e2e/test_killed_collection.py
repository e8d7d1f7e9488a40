"""A worker is killed while it reads from Langfuse: no trace is lost and no page is read twice."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from mosaico.traces.production import sampling_rank
from tests.support.deployment import Deployment
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.langfuse.exchange import Exchange, FakeResponse, NoResponse, TrueResponse
from tests.support.langfuse.faults import ALWAYS, NoResponseEver
from tests.support.langfuse.records import DEFAULT_TIME
from tests.support.processes import until

ITEMS_PATH = "/experiment-items"
ROOTS_PATH = "/v2/observations"
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class NoResponseAbout:
    """No response to requests that name a trace."""

    trace_id: str

    def __call__(self, exchange: Exchange, _true_answer: TrueResponse) -> FakeResponse | None:
        return NoResponse() if self.trace_id in str(exchange.request.query_params) else None


@pytest.fixture
def langfuse() -> Iterator[FakeLangfuse]:
    with run_fake_langfuse() as running:
        yield running


def set_keys(deployment: Deployment, langfuse: FakeLangfuse) -> None:
    deployment.service.patch(
        "/agents/agent-001",
        {
            "langfuseUrl": langfuse.url,
            "langfusePublicKey": langfuse.public_key,
            "langfuseSecretKey": langfuse.secret_key,
        },
    )


def complete_by_another_worker(deployment: Deployment, run_id: str) -> None:
    deployment.database.age_heartbeats()
    deployment.programs.worker(MOSAICO_OUTBOUND_ALLOW="127.0.0.0/8")
    run = deployment.completed_run(run_id)
    assert (run["tracesTotal"], run["tracesProcessed"]) == (450, 450)


def test_killed_collection__sample_of_production_is_read_once(
    deployment: Deployment, langfuse: FakeLangfuse
) -> None:
    trace_ids = [langfuse.production_trace(number) for number in range(600)]
    sample = sorted(trace_ids, key=lambda trace_id: sampling_rank(5, trace_id))[:450]
    # Roots and spans of each hundred traces are read, up to four hundreds at once: the fifth waits.
    langfuse.inject(NoResponseAbout(sample[-1]), path=ROOTS_PATH, on=ALWAYS)
    set_keys(deployment, langfuse)
    window = {"from": DEFAULT_TIME.isoformat(), "to": (DEFAULT_TIME + DAY).isoformat()}
    deployment.service.create_benchmark(
        "in-production",
        datasetRef=None,
        source="langfuse",
        metrics=["LATENCY"],
        production={"window": window, "sampleSize": 450, "seed": 5},
    )
    victim = deployment.programs.worker(MOSAICO_OUTBOUND_ALLOW="127.0.0.0/8")
    run_id = deployment.service.start_run(benchmarkId="in-production")["id"]

    def hangs_after_a_page() -> bool:
        stored = deployment.database.value("SELECT coalesce(max(trace_count), 0) FROM collections")
        asked = (str(request.parameters) for request in langfuse.requests_for(ROOTS_PATH))
        return bool(stored and any(sample[-1] in parameters for parameters in asked))

    until(hangs_after_a_page, what=victim.log)
    victim.kill()
    langfuse.clear_faults()
    complete_by_another_worker(deployment, run_id)
    stored = deployment.database.value(
        "SELECT string_agg(trace_id, ',' ORDER BY position) FROM collected_traces"
    )
    assert stored == ",".join(sample)


def test_killed_collection__no_stored_page_is_read_again(
    deployment: Deployment, langfuse: FakeLangfuse
) -> None:
    langfuse.experiment(items=450)
    # The first request looks for an earlier run of the same name.
    langfuse.inject(NoResponseEver(), path=ITEMS_PATH, on={5})
    set_keys(deployment, langfuse)
    deployment.service.create_benchmark("in-langfuse", source="langfuse", metrics=["ACCURACY"])
    victim = deployment.programs.worker(MOSAICO_OUTBOUND_ALLOW="127.0.0.0/8")
    run_id = deployment.service.start_run(benchmarkId="in-langfuse")["id"]

    def hangs_after_three_pages() -> bool:
        stored = deployment.database.value("SELECT coalesce(max(trace_count), 0) FROM collections")
        return bool(stored == 300 and len(langfuse.requests_for(ITEMS_PATH)) == 5)

    until(hangs_after_three_pages, what=victim.log)
    victim.kill()
    complete_by_another_worker(deployment, run_id)
    assert deployment.database.value("SELECT count(DISTINCT trace_id) FROM collected_traces") == 450
    request_counts = Counter(
        (request.path, *sorted(request.parameters.items()))
        for request in langfuse.requests
        if request.status
    )
    assert set(request_counts.values()) == {1}
    # The look, and five pages, one of them in two attempts.
    assert len(langfuse.requests_for(ITEMS_PATH)) == 7
