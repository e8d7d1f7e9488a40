"""Evaluators write their scores after the answers: a run waits for them, and says so."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mosaico.core.http.throttle import CancelToken
from tests.integration.langfuse.collection import FAST_POLICY, collect_all, read_pages
from tests.support.langfuse import FakeLangfuse, ScorePlan
from tests.support.langfuse.source_benchmarks import agent
from tests.support.service import Service
from tests.support.stored import DatabaseReader

TONE = ("tone",)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CancelToken, "pause", lambda _token, _seconds: None)


class Arriving:
    """The items that have a score, by the number of readings: the first `counts[n]` ones in reading n."""

    def __init__(self, langfuse: FakeLangfuse, counts: Sequence[int]) -> None:
        self.langfuse = langfuse
        self.counts = counts

    def __contains__(self, number: object) -> bool:
        reading = min(len(self.langfuse.requests_for("/experiment-items")), len(self.counts)) - 1
        return isinstance(number, int) and number < self.counts[max(reading, 0)]


def experiment(langfuse: FakeLangfuse, counts: Sequence[int], **fields: Any) -> datetime:
    """A run of 30 items; returns when it ended."""
    scores = [ScorePlan(name="tone", value=0.5, items=Arriving(langfuse, counts))]
    return langfuse.experiment(items=30, every=timedelta(seconds=1), scores=scores, **fields).ends


def scored(traces: Sequence[Any]) -> int:
    return sum("tone" in trace.scores for trace in traces)


def readings(langfuse: FakeLangfuse) -> int:
    return len(langfuse.requests_for("/experiment-items"))


def test_recent_run__waits_for_scores_that_arrive_in_steps(langfuse: FakeLangfuse) -> None:
    ends = experiment(langfuse, [0, 0, 10, 10, 30])
    traces = collect_all(langfuse, now=ends + timedelta(seconds=5), score_names=TONE).traces
    assert (len(traces), scored(traces)) == (30, 30)


def test_recent_run__is_read_when_no_further_score_arrives(langfuse: FakeLangfuse) -> None:
    ends = experiment(langfuse, [20])
    traces = collect_all(langfuse, now=ends + timedelta(seconds=5), score_names=TONE).traces
    assert (len(traces), scored(traces)) == (30, 20)
    # The first reading, eight equal ones (two minutes at 15 s), and the collection.
    assert readings(langfuse) == 10


def test_settle_for__is_the_quiet_time_of_scores(langfuse: FakeLangfuse) -> None:
    ends = experiment(langfuse, [20])
    collect_all(langfuse, now=ends + timedelta(seconds=5), score_names=TONE, settle_for="1m")
    assert readings(langfuse) == 6


def test_scores_that_never_stop__are_waited_for_at_most_the_limit(langfuse: FakeLangfuse) -> None:
    ends = experiment(langfuse, range(1, 200), errors=())
    policy = replace(FAST_POLICY, score_limit_s=150.0)
    collect_all(langfuse, policy=policy, now=ends + timedelta(seconds=5), score_names=TONE)
    # The first reading, ten polls of 15 s, and the collection.
    assert readings(langfuse) == 12


@pytest.mark.parametrize("case", ["complete", "old", "unused"])
def test_run__that_needs_no_wait_is_read_once_more_at_most(
    langfuse: FakeLangfuse, case: str
) -> None:
    ends = experiment(langfuse, [30 if case == "complete" else 20])
    age = timedelta(hours=1) if case == "old" else timedelta(seconds=5)
    names = () if case == "unused" else TONE
    collect_all(langfuse, now=ends + age, score_names=names)
    assert readings(langfuse) == (2 if case == "complete" else 1)


def test_failed_answers__are_not_waited_for(langfuse: FakeLangfuse) -> None:
    ends = experiment(langfuse, [20], errors=range(20, 30))
    collect_all(langfuse, now=ends + timedelta(seconds=5), score_names=TONE)
    assert readings(langfuse) == 2


def test_waiting__is_shown(langfuse: FakeLangfuse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mosaico.traces.sources.langfuse.source.HEARTBEAT_S", 0.001)
    ends = experiment(langfuse, [*[20] * 7, 30])
    pages = list(read_pages(langfuse, now=ends + timedelta(seconds=5), score_names=TONE))
    waiting = {page.waiting_for for page in pages}
    assert "scores of evaluators: 20 of 30 answers have tone" in waiting
    assert pages[-1].waiting_for is None


class Scored:
    """The items that have a score now."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and number < self.count


def make_due(service: Service) -> None:
    DatabaseReader(service.resources.db.url).execute(
        "UPDATE procrastinate_jobs SET scheduled_at = NULL WHERE status = 'todo'"
    )
    service.work()


def test_scores_that_arrive_later__are_judged_by_a_new_run_of_the_same_night(
    service: Service, langfuse: FakeLangfuse
) -> None:
    scored = Scored(20)
    langfuse.experiment(items=30, scores=[ScorePlan(name="tone", value=0.5, items=scored)])
    agent(service, langfuse)
    service.create_benchmark(
        source="langfuse",
        datasetRef="support",
        metrics=[{"key": "SCORE", "options": {"name": "tone", "better": "higher"}}],
        measures=[{"name": "tone", "formula": 'SCORE["tone"]'}],
    )
    first = service.complete_run()
    assert (first["validity"], "scores for 20 of 30" in first["validityReasons"][0]) == (
        "INVALID",
        True,
    )
    # Nothing has arrived, and no run is started.
    make_due(service)
    assert len(service.get("/benchmark-runs")["items"]) == 1
    scored.count = 30
    make_due(service)
    second, _ = service.get("/benchmark-runs")["items"]
    assert (second["validity"], second["hasNewData"]) == ("VALID", True)
    assert second["sameSourceAs"] == first["id"]
    assert 'SCORE["tone"] 20 → 30' in second["verdict"]["explanation"]
    assert first["id"] in second["verdict"]["explanation"]
    # The later checks find the same data.
    for _ in range(3):
        make_due(service)
    assert len(service.get("/benchmark-runs")["items"]) == 2


def test_scores_of_a_run_with_erased_texts__are_not_read_again(
    service: Service, langfuse: FakeLangfuse
) -> None:
    scored = Scored(20)
    langfuse.experiment(items=30, scores=[ScorePlan(name="tone", value=0.5, items=scored)])
    agent(service, langfuse)
    service.create_benchmark(
        source="langfuse",
        datasetRef="support",
        metrics=[{"key": "SCORE", "options": {"name": "tone", "better": "higher"}}],
    )
    run = service.complete_run()
    [first, *_] = service.list_items(f"/benchmark-runs/{run['id']}/results")
    assert service.post("/local-datasets/purge", {"itemId": first["itemId"]})["traces"] == 1
    scored.count = 30
    make_due(service)
    assert [row["id"] for row in service.get("/benchmark-runs")["items"]] == [run["id"]]
