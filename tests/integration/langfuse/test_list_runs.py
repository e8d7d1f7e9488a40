"""The list of runs of a Langfuse project, which polls use."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from mosaico.core.encryption import Secret
from mosaico.traces.registry import CollectionFailed, SourceRun
from mosaico.traces.sources.langfuse.catalog import list_runs
from tests.integration.langfuse.collection import NOW, make_query, make_resources
from tests.support.langfuse import FakeLangfuse
from tests.support.langfuse.faults import HtmlResponse
from tests.support.langfuse.records import DEFAULT_TIME

BOTH = pytest.mark.parametrize("server", ["langfuse", "langfuse_v3"])


@pytest.fixture
def some_server(request: pytest.FixtureRequest, server: str) -> FakeLangfuse:
    server_fixture: FakeLangfuse = request.getfixturevalue(server)
    return server_fixture


def listed(langfuse: FakeLangfuse, *, now: datetime = NOW, **fields: Any) -> Sequence[SourceRun]:
    return list_runs(make_resources(now), make_query(langfuse, **fields))


def test_list_runs__describes_what_a_collection_reads(langfuse: FakeLangfuse) -> None:
    experiment = langfuse.experiment(run="run 1/ö,x", items=30)
    [run] = listed(langfuse)
    assert run == SourceRun(
        id=experiment.id,
        name="run 1/ö,x",
        started_at=DEFAULT_TIME,
        # Thirty items, five seconds apart; the last call ends at 311 ms.
        ended_at=DEFAULT_TIME + timedelta(seconds=29 * 5, milliseconds=311),
        items=30,
        complete=True,
    )


def test_list_runs__v3_server_describes_the_same_run(langfuse_v3: FakeLangfuse) -> None:
    experiment = langfuse_v3.experiment(run="run 1/ö,x", items=30)
    [run] = listed(langfuse_v3)
    assert (run.id, run.name, run.items, run.complete) == (experiment.id, "run 1/ö,x", 30, True)
    assert (run.started_at, run.ended_at) == (
        DEFAULT_TIME,
        DEFAULT_TIME + timedelta(seconds=29 * 5),
    )


@BOTH
def test_list_runs__newest_first_of_one_dataset(
    some_server: FakeLangfuse,
) -> None:
    for number in (1, 2, 3):
        some_server.experiment(run=f"run-{number}", items=2)
    some_server.experiment(dataset="other", run="run-4", items=2)
    assert [run.name for run in listed(some_server)] == ["run-3", "run-2", "run-1"]


@BOTH
def test_list_runs__run_is_complete_after_15_minutes_without_activity(
    some_server: FakeLangfuse,
) -> None:
    some_server.experiment(items=30)
    [run] = listed(some_server)
    assert run.ended_at is not None
    quarter = timedelta(minutes=15)
    [before] = listed(some_server, now=run.ended_at + quarter - timedelta(seconds=1))
    [after] = listed(some_server, now=run.ended_at + quarter)
    assert (before.complete, after.complete) == (False, True)


@BOTH
def test_list_runs__dataset_without_runs_is_empty(some_server: FakeLangfuse) -> None:
    some_server.dataset("unused", items=3)
    assert listed(some_server, dataset_ref="unused") == []


@BOTH
def test_list_runs__raises_the_errors_of_a_collection(some_server: FakeLangfuse) -> None:
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


def test_list_runs__server_without_runs_raises(langfuse: FakeLangfuse) -> None:
    langfuse.dataset("support", items=1)
    langfuse.inject(HtmlResponse(status=404), path="/experiments")
    with pytest.raises(CollectionFailed, match="does not offer an API") as caught:
        listed(langfuse)
    assert caught.value.error_code == "BAD_RESPONSE"
