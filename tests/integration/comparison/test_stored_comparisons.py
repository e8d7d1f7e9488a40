"""A comparison is computed once, stored, and deleted with a run; a page that waits for one says so."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import func, select, text

from mosaico.comparison import comparison_store, stored_run_comparison
from mosaico.comparison.models import StoredComparison
from mosaico.comparison.schemas import Comparison
from mosaico.core.errors import Unavailable
from tests.integration.comparison.conftest import CompleteRun, traces
from tests.support.page_reads import HTML
from tests.support.service import JSON, Service


class Computations:
    """Counts the computations; while `gate` is closed, they wait."""

    def __init__(self) -> None:
        self.count = 0
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None

    def compare(self, *args: Any, **options: Any) -> Comparison:
        self.count += 1
        assert self.gate.wait(60)
        if self.error is not None:
            raise self.error
        return stored_run_comparison.compare_runs(*args, **options)


@pytest.fixture
def computations(monkeypatch: pytest.MonkeyPatch) -> Iterator[Computations]:
    computations = Computations()
    monkeypatch.setattr(stored_run_comparison, "compare_in_child", computations.compare)
    yield computations
    computations.gate.set()


@pytest.fixture
def two_runs(complete_run: CompleteRun) -> list[str]:
    runs: list[JSON] = [
        complete_run("monday", traces([39])),
        complete_run("tuesday", traces(range(10))),
    ]
    return [run["id"] for run in runs]


def compare(service: Service, ids: list[str], **options: str) -> JSON:
    baseline, candidate = ids
    query = {"baseline": baseline, "candidate": candidate, **options}
    answer = service.client.get("/api/v1/benchmark-runs/compare", params=query)
    assert answer.status_code == 200, answer.text
    document: JSON = answer.json()
    return document


def count_stored(service: Service) -> int:
    with service.resources.db.read() as session:
        return session.scalar(select(func.count()).select_from(StoredComparison)) or 0


def test_comparison__is_computed_once_and_equal_afterwards(
    service: Service, computations: Computations, two_runs: list[str]
) -> None:
    first = compare(service, two_runs)
    assert first["verdict"]["verdict"] == "REGRESSED"
    assert compare(service, two_runs) == first
    assert computations.count == 1
    # The other direction, and other options, are other comparisons.
    compare(service, two_runs[::-1])
    compare(service, two_runs, about="POPULATION")
    assert (computations.count, count_stored(service)) == (3, 3)


INPUT_CHANGES = (
    "UPDATE benchmark_runs SET validity = 'INVALID'",
    "UPDATE benchmark_runs SET fingerprint = 'another'",
    "UPDATE agents SET revision = revision + 1",
)


def test_comparison__whose_inputs_changed_is_computed_again(
    service: Service, computations: Computations, two_runs: list[str]
) -> None:
    compare(service, two_runs)
    for number, change in enumerate(INPUT_CHANGES, 1):
        with service.resources.db.begin() as session:
            session.execute(text(change))
        compare(service, two_runs)
        assert (computations.count, count_stored(service)) == (1 + number, 1), change


def test_comparison__is_deleted_with_each_of_its_runs(
    service: Service, computations: Computations, two_runs: list[str], complete_run: CompleteRun
) -> None:
    first, second = two_runs
    third = complete_run("wednesday", traces(range(3)))["id"]
    compare(service, [first, second])
    compare(service, [second, third])
    assert (computations.count, count_stored(service)) == (2, 2)
    for number, deleted in ((1, first), (0, third)):
        service.delete(f"/benchmark-runs/{deleted}")
        assert count_stored(service) == number


def test_page__says_that_it_compares_and_then_shows_the_result(
    service: Service,
    computations: Computations,
    two_runs: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison_store, "PAGE_WAIT_S", 0.0)
    computations.gate.clear()
    address = f"/compare?base={two_runs[0]}&run={two_runs[1]}"
    for _ in range(3):
        waiting = service.client.get(address, headers=HTML)
        assert waiting.status_code == 202
        # Without a script, the browser looks again by itself.
        assert '<noscript><meta http-equiv="refresh"' in waiting.text
        assert 'data-poll="page"' in waiting.text
    computations.gate.set()
    monkeypatch.setattr(comparison_store, "PAGE_WAIT_S", 60.0)
    shown = service.client.get(address, headers=HTML)
    assert shown.status_code == 200
    assert "regressed" in shown.text
    # All that asked waited for one computation.
    assert computations.count == 1


def test_comparison__that_failed_is_tried_again_by_the_next_request(
    service: Service, computations: Computations, two_runs: list[str]
) -> None:
    computations.error = Unavailable("the process was lost")
    query = {"baseline": two_runs[0], "candidate": two_runs[1]}
    failed = service.client.get("/api/v1/benchmark-runs/compare", params=query)
    assert failed.status_code == 503
    computations.error = None
    compare(service, two_runs)
    assert (computations.count, count_stored(service)) == (2, 1)


def test_agent_page__says_that_it_compares_versions_and_then_shows_the_result(
    service: Service,
    computations: Computations,
    complete_run: CompleteRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, failed, version in (("monday", range(5), "v14"), ("tuesday", range(25), "v15")):
        night = [trace | {"attributes": {"promptVersion": version}} for trace in traces(failed)]
        complete_run(name, night)
    versions = service.get("/agents/agent-001/versions", benchmarkId="bench-001")["versions"]
    chosen = {"benchmark": "bench-001", "a": versions[1]["id"], "b": versions[0]["id"]}
    monkeypatch.setattr(comparison_store, "PAGE_WAIT_S", 0.0)
    computations.gate.clear()
    for _ in range(3):
        waiting = service.client.get("/agents/agent-001", params=chosen, headers=HTML).text
        assert '<noscript><meta http-equiv="refresh"' in waiting
        assert 'data-poll="page"' in waiting
    computations.gate.set()
    monkeypatch.setattr(comparison_store, "PAGE_WAIT_S", 60.0)
    for _ in range(2):
        shown = service.client.get("/agents/agent-001", params=chosen, headers=HTML).text
        assert "All items side by side" in shown
        assert "data-poll" not in shown
    # All that asked waited for one computation, and the later ones read what it stored.
    assert (computations.count, count_stored(service)) == (1, 1)
