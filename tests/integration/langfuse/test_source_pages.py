"""Pages of a Langfuse run: windows, late rows, and what was counted but never appears."""

from datetime import timedelta
from typing import Any

import pytest

from tests.integration.langfuse.collection import (
    collect_all,
)
from tests.support.langfuse import FakeLangfuse
from tests.support.langfuse.faults import ModifiedResponse


def test_source__short_pages_are_not_the_end(langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=250)
    langfuse.set_short_pages(37)
    assert len({trace.trace_id for trace in collect_all(langfuse).traces}) == 250


def test_source__rows_ingested_twice_give_one_trace(langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=150, repeated=2)
    assert len({trace.trace_id for trace in collect_all(langfuse).traces}) == 150


def test_source__large_run_is_read_in_time_windows_in_order(langfuse: FakeLangfuse) -> None:
    langfuse.experiment(items=3_000, calls_per_item=1, nested=True, judged=True)
    collection = collect_all(langfuse)
    assert [trace.trace_id for trace in collection.traces] == [
        f"00000001{number:024x}" for number in reversed(range(3_000))
    ]
    assert {trace.cost_usd for trace in collection.traces} == {0.001}
    starts = {
        (request.path, request.parameters.get("fromStartTime")) for request in langfuse.requests
    }
    assert len(langfuse.requests) <= 30 + 3 + 4 + len(starts)
    assert langfuse.max_in_flight <= 8


def test_source__recent_run_is_polled_until_stable(langfuse: FakeLangfuse) -> None:
    run = langfuse.experiment(items=30, visible=[10, 20, 30, 30, 30, 30, 30])
    just_ended = run.ends + timedelta(seconds=5)
    collection = collect_all(langfuse, now=just_ended)
    assert len(collection.traces) == 30
    assert {page.total for page in collection.pages} == {30}
    # 10, 20 and three times 30 items: one request for each look.
    assert len(langfuse.requests_for("/experiments")) == 5


def test_source__run_that_lacks_items_of_its_dataset_is_waited_for(langfuse: FakeLangfuse) -> None:
    langfuse.dataset("support", items=8)
    # Twelve equal looks are more than `stable_polls`: only the missing items keep the run waiting.
    run = langfuse.experiment(items=8, visible=[*[2] * 12, *[5] * 12, 8])
    collection = collect_all(langfuse, now=run.started + timedelta(seconds=10))
    assert len(collection.traces) == 8
    assert {page.dataset_items for page in collection.pages} == {8}


def test_source__run_that_lacks_items_has_settled_after_a_quiet_time(
    langfuse: FakeLangfuse,
) -> None:
    langfuse.dataset("support", items=60)
    run = langfuse.experiment(items=40)
    # 40 items in intervals of five seconds: a minute without a new item is long.
    collection = collect_all(langfuse, now=run.ends + timedelta(seconds=61))
    assert len(collection.traces) == 40
    # Three equal looks (`stable_polls`) at a run of which nothing is expected any more.
    assert len(langfuse.requests_for("/experiments")) == 3


def test_source__waits_for_rows_that_lag_behind_the_count(langfuse: FakeLangfuse) -> None:
    run = langfuse.experiment(items=30)

    def hide(answer: dict[str, Any]) -> None:
        del answer["data"][:10]

    langfuse.inject(ModifiedResponse(change=hide), path="/experiment-items", on={1, 2})
    collection = collect_all(langfuse, now=run.ends + timedelta(seconds=5))
    assert len({trace.trace_id for trace in collection.traces}) == 30
    assert len(langfuse.requests_for("/experiment-items")) == 3


def test_source__repeated_rows_do_not_count_as_missing_rows(
    langfuse: FakeLangfuse,
) -> None:
    run = langfuse.experiment(items=60, repeated=2)

    def hide(answer: dict[str, Any]) -> None:
        late = {f"dataset-1-{number}" for number in range(50, 60)}
        answer["data"] = [row for row in answer["data"] if row["experimentItemId"] not in late]

    langfuse.inject(ModifiedResponse(change=hide), path="/experiment-items", on={1, 2})
    collection = collect_all(langfuse, now=run.ends + timedelta(seconds=5))
    # 100 rows are 50 of the 60 reported traces; the next pass reads all.
    assert len({trace.trace_id for trace in collection.traces}) == 60


def test_source__rows_that_never_appear_are_missing(
    langfuse: FakeLangfuse, caplog: pytest.LogCaptureFixture
) -> None:
    langfuse.experiment(items=30)

    def hide(answer: dict[str, Any]) -> None:
        del answer["data"][:10]

    # The first request looks for an earlier run of the name, the second one reads the rows.
    langfuse.inject(ModifiedResponse(change=hide), path="/experiment-items", on={2})
    collection = collect_all(langfuse)
    assert len(collection.traces) == 20
    assert {page.total for page in collection.pages} == {30}
    assert "the others are missing" in caplog.text
