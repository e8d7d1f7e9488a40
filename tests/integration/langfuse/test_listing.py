"""Which runs a Langfuse project holds, for whoever waits for new ones."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.core.encryption import Secret
from app.traces.registry import TRACE_SOURCES, CollectionFailed, SourceRun
from app.traces.sources.langfuse.runs import list_runs
from tests.integration.langfuse.collecting import NOW, collected, query_of, resources
from tests.support.langfuse import StandIn
from tests.support.langfuse.mishaps import HtmlPage, Oversized
from tests.support.langfuse.records import SOME_NIGHT

BOTH = pytest.mark.parametrize("server", ["langfuse", "langfuse_v3"])


@pytest.fixture
def some_server(request: pytest.FixtureRequest, server: str) -> StandIn:
    found: StandIn = request.getfixturevalue(server)
    return found


def listed(langfuse: StandIn, *, now: datetime = NOW, **fields: Any) -> Sequence[SourceRun]:
    return list_runs(resources(now), query_of(langfuse, **fields))


def test_a_run_says_what_a_collection_would_find(langfuse: StandIn) -> None:
    made = langfuse.experiment(run="night 1/ö,x", items=30)
    [run] = listed(langfuse)
    assert run == SourceRun(
        id=made.id,
        name="night 1/ö,x",
        started_at=SOME_NIGHT,
        # Thirty items, five seconds apart; the call that began last took until 311 ms.
        ended_at=SOME_NIGHT + timedelta(seconds=29 * 5, milliseconds=311),
        items=30,
        complete=True,
    )


def test_an_older_server_says_the_same_as_far_as_it_knows(langfuse_v3: StandIn) -> None:
    made = langfuse_v3.experiment(run="night 1/ö,x", items=30)
    [run] = listed(langfuse_v3)
    assert (run.id, run.name, run.items, run.complete) == (made.id, "night 1/ö,x", 30, True)
    assert (run.started_at, run.ended_at) == (SOME_NIGHT, SOME_NIGHT + timedelta(seconds=29 * 5))


@BOTH
def test_the_newest_run_comes_first_and_other_datasets_do_not_come(some_server: StandIn) -> None:
    for night in (1, 2, 3):
        some_server.experiment(run=f"night-{night}", items=2)
    some_server.experiment(dataset="other", run="night-4", items=2)
    assert [run.name for run in listed(some_server)] == ["night-3", "night-2", "night-1"]


@BOTH
def test_a_run_is_complete_a_quarter_of_an_hour_after_the_last_of_it(some_server: StandIn) -> None:
    some_server.experiment(items=30)
    [run] = listed(some_server)
    assert run.ended_at is not None
    quarter = timedelta(minutes=15)
    [before] = listed(some_server, now=run.ended_at + quarter - timedelta(seconds=1))
    [after] = listed(some_server, now=run.ended_at + quarter)
    assert (before.complete, after.complete) == (False, True)


@BOTH
def test_its_id_is_a_name_under_which_the_run_is_read(some_server: StandIn) -> None:
    some_server.experiment(run="night-1", items=3)
    some_server.experiment(run="night-2", items=5)
    oldest = listed(some_server)[-1]
    assert len(collected(some_server, run_name=oldest.id).traces) == oldest.items == 3


def test_a_server_of_both_generations_is_asked_for_both(langfuse_dual: StandIn) -> None:
    langfuse_dual.experiment(run="by SDK 5", items=2)
    langfuse_dual.experiment(run="by hand", items=3, linked_by="run_items")
    found = {run.name: run.items for run in listed(langfuse_dual)}
    assert found == {"by SDK 5": 2, "by hand": 3}


@BOTH
def test_a_dataset_without_runs_has_none(some_server: StandIn) -> None:
    some_server.dataset("unused", items=3)
    assert listed(some_server, dataset_ref="unused") == []


@BOTH
def test_what_is_wrong_is_told_as_a_collection_tells_it(some_server: StandIn) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "DATASET_NOT_FOUND": {"dataset_ref": "absent"},
        "LANGFUSE_AUTH": {"secret_key": Secret("sk-wrong")},
    }
    for code, fields in wrong.items():
        with pytest.raises(CollectionFailed) as caught:
            listed(some_server, **fields)
        assert caught.value.error_code == code
    with pytest.raises(CollectionFailed, match="datasetRef"):
        listed(some_server, dataset_ref=None)


def test_a_server_that_offers_no_runs_at_all_is_told(langfuse: StandIn) -> None:
    langfuse.dataset("support", items=1)
    langfuse.inject(HtmlPage(status=404), path="/experiments")
    with pytest.raises(CollectionFailed, match="does not offer an API") as caught:
        listed(langfuse)
    assert caught.value.error_code == "BAD_RESPONSE"


@pytest.mark.usefixtures("plugins")
def test_the_source_is_asked_by_whoever_knows_only_its_name(langfuse: StandIn) -> None:
    langfuse.experiment(items=1)
    ask = TRACE_SOURCES.get("langfuse").list_runs
    assert ask is not None
    assert len(ask(resources(datetime.now(UTC)), query_of(langfuse))) == 1


def test_a_run_too_large_for_one_answer_is_read_page_by_page(langfuse_v3: StandIn) -> None:
    langfuse_v3.experiment(items=250)
    whole = collected(langfuse_v3).traces
    langfuse_v3.forget()
    langfuse_v3.inject(Oversized(packed=True), path="/datasets/support/runs/night-1", on=range(9))
    assert collected(langfuse_v3).traces == whole
    # Once to find it, once to read it: 250 items are three pages.
    assert len(langfuse_v3.asked_for("/dataset-run-items")) == 6
