"""Traces and values of earlier runs are neither stored nor computed again."""

import pytest

from mosaico.runs import shards
from tests.support.metric_calls import RUNS, CountingPool, counts
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

MACRO = {"key": "F1_SCORE", "options": {"labels": "macro"}}
STEMMED = {"key": "ROUGE", "options": {"useStemmer": True}}


def measure(service: Service, *metrics: object) -> None:
    service.patch("/benchmarks/bench-001", {"metrics": list(metrics)})


def mean(service: Service, run: JSON, metric: str) -> float:
    aggregates = service.get(f"{RUNS}/{run['id']}/metrics")["items"]
    [value] = [aggregate["mean"] for aggregate in aggregates if aggregate["metric"] == metric]
    return float(value)


def test_metric_cache__an_unchanged_run_computes_nothing_and_equals_to_the_last_bit(
    counting_service: Service, pool: CountingPool, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(
        metrics=["ROUGE", "BLEU", MACRO],
        measures=[{"name": "quality", "formula": "WEIGHTED_SUM(ROUGE:0.3, BLEU:0.2) + F1_SCORE"}],
    )
    first = counting_service.complete_run()
    # All five traces are asked, and the four that have an output have three values each.
    assert pool.take_counts() == {"ROUGE": 5, "BLEU": 5, "F1_SCORE": 5, "ERROR_RATE": 5}
    # The failures of five traces, too.
    assert counts(first) == (12 + 5, 0)

    second = counting_service.complete_run()

    # The one summary is that of the first run; the second takes its value over.
    assert (pool.take_counts(), pool.summarized) == ({}, {"F1_SCORE": 1})
    assert counts(second) == (0, 12 + 5)
    first_stored, other = rows.stored_run(first["id"]), rows.stored_run(second["id"])
    assert first_stored.results == other.results
    assert first_stored.metrics == other.metrics
    assert first_stored.kpis == other.kpis
    assert rows.value("SELECT count(*) FROM collections") == 1
    assert rows.value("SELECT count(*) FROM collected_traces") == 5


def test_metric_cache__only_an_added_metric_is_computed(
    counting_service: Service, pool: CountingPool
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE", "BLEU"])
    before = counting_service.complete_run()
    pool.take_counts()

    # In another order, so that its values stand elsewhere in the rows.
    measure(counting_service, "EXACT_MATCH", "BLEU", "ROUGE")
    run = counting_service.complete_run()

    assert pool.take_counts() == {"EXACT_MATCH": 5}
    assert counts(run) == (4, 8 + 5)
    assert mean(counting_service, run, "ROUGE") == mean(counting_service, before, "ROUGE")
    assert mean(counting_service, run, "BLEU") == mean(counting_service, before, "BLEU")
    assert mean(counting_service, run, "EXACT_MATCH") == 2 / 4
    results = counting_service.list_items(f"{RUNS}/{run['id']}/results")
    assert results[3]["missing"]["BLEU"]["skipped"] == "NO_OUTPUT"


def test_metric_cache__combines_values_of_several_runs(
    counting_service: Service, pool: CountingPool
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    rouge = mean(counting_service, counting_service.complete_run(), "ROUGE")
    measure(counting_service, "EXACT_MATCH")
    counting_service.complete_run()
    pool.take_counts()

    measure(counting_service, "EXACT_MATCH", "ROUGE")
    run = counting_service.complete_run()

    assert pool.take_counts() == {}
    assert (mean(counting_service, run, "ROUGE"), mean(counting_service, run, "EXACT_MATCH")) == (
        rouge,
        2 / 4,
    )


def test_metric_cache__only_a_new_metric_version_is_computed(
    counting_service: Service, pool: CountingPool
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE", "BLEU"])
    plain = counting_service.complete_run()
    pool.take_counts()

    measure(counting_service, STEMMED, "BLEU")
    run = counting_service.complete_run()

    assert pool.take_counts() == {"ROUGE": 5}
    # Stemmed, "boats sailed" has the words of "the boats sail": F1 = 2·1·(2/3) / (5/3) = 0.8
    # instead of 2·(1/2)·(1/3) / (5/6) = 0.4, in one of four values.
    gained = mean(counting_service, run, "ROUGE") - mean(counting_service, plain, "ROUGE")
    assert gained == pytest.approx((0.8 - 0.4) / 4)


@pytest.mark.parametrize("shard_traces", [2000, 2])
def test_metric_cache__keeps_the_run_value_of_labels(
    counting_service: Service,
    pool: CountingPool,
    monkeypatch: pytest.MonkeyPatch,
    shard_traces: int,
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE", MACRO])
    first = counting_service.complete_run()
    # Shards of another length have other summaries, made of the same values.
    monkeypatch.setattr(shards, "SHARD_TRACES", shard_traces)
    pool.take_counts()
    pool.summarized.clear()

    measure(counting_service, MACRO)
    second = counting_service.complete_run()

    assert pool.take_counts() == {}
    # Five traces in shards of two are three shards.
    assert pool.summarized == ({} if shard_traces == 2000 else {"F1_SCORE": 3})
    assert mean(counting_service, second, "F1_SCORE") == mean(counting_service, first, "F1_SCORE")


def test_metric_cache__only_failed_values_are_tried_again(
    counting_service: Service, pool: CountingPool
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE", MACRO], maxErrorShare=1)
    pool.lost = {("ROUGE", "t-2"), ("F1_SCORE", "t-5")}
    broken = counting_service.complete_run()
    # t-2 and t-5 are lost for one metric each; expected a and b, given b and nothing else.
    assert counts(broken) == (6 + 5, 0)
    pool.take_counts()
    pool.lost.clear()

    complete_run = counting_service.complete_run()

    assert pool.take_counts() == {"ROUGE": 1, "F1_SCORE": 1}
    assert counts(complete_run) == (2, 6 + 5)
    measure(counting_service, "EXACT_MATCH")
    fresh = counting_service.complete_run()
    assert mean(counting_service, fresh, "EXACT_MATCH") == 2 / 4
    # Right, expected, given: a is (1, 2, 1), b is (1, 1, 2), "the boats sail" and "boats sailed"
    # are never right: macro F1 is (2/3 + 2/3 + 0 + 0) / 4.
    assert mean(counting_service, complete_run, "F1_SCORE") == pytest.approx(1 / 3)


def test_metric_cache__values_outlive_the_run_they_came_from(
    counting_service: Service, pool: CountingPool, rows: DatabaseReader
) -> None:
    counting_service.create_benchmark(metrics=["ROUGE"])
    donor, heir = counting_service.complete_run(), counting_service.complete_run()
    before = rows.stored_run(heir["id"])

    counting_service.delete(f"{RUNS}/{donor['id']}")
    counting_service.work()

    assert rows.stored_run(heir["id"]) == before
    pool.take_counts()
    third = counting_service.complete_run()
    assert (pool.take_counts(), counts(third)) == ({}, (0, 4 + 5))
    for run in (heir, third):
        counting_service.delete(f"{RUNS}/{run['id']}")
    [upload] = counting_service.get("/local-datasets")["items"]
    counting_service.delete(f"/local-datasets/{upload['id']}")
    counting_service.work()
    for table in ("collections", "collected_traces", "trace_results"):
        assert rows.value(f"SELECT count(*) FROM {table}") == 0
