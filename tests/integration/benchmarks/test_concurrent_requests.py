"""Many who create and change at once, and one who repeats a request: nothing doubled, nothing lost."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.support.service import JSON, Service

KPIS = "/benchmarks/bench-001/kpis"


def all_at_once(service: Service, requests: list[tuple[str, str, JSON]]) -> list[httpx.Response]:
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda request: service.send(*request), requests))


def test_create__one_of_many_concurrent_requests_gets_the_id(service: Service) -> None:
    service.create_benchmark()
    for path, body in (
        ("/agents", {"id": "wanted", "name": "x"}),
        ("/benchmarks", {"id": "wanted"}),
        (KPIS, {"id": "wanted", "name": "x", "formula": "ROUGE"}),
    ):
        answers = all_at_once(service, [("POST", path, body)] * 8)
        assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 7}


def test_change_kpi__concurrent_edits_create_one_revision_each(service: Service) -> None:
    service.create_benchmark(measures=[{"id": "quality", "name": "quality", "formula": "ROUGE"}])
    edits = [("PATCH", f"{KPIS}/quality", {"thresholdMin": n / 10}) for n in range(1, 9)]
    answers = all_at_once(service, edits)
    assert {answer.status_code for answer in answers} == {200}
    assert sorted(answer.json()["revision"] for answer in answers) == list(range(2, 10))
    assert service.get(f"{KPIS}/quality")["revision"] == 9
    renames = [("PATCH", "/benchmarks/bench-001", {"runName": f"n-{n}"}) for n in range(8)]
    assert {answer.status_code for answer in all_at_once(service, renames)} == {200}
    assert service.get("/benchmarks/bench-001")["revision"] == 17, (
        "8 edits of its KPI are edits of it, too"
    )
