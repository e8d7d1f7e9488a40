"""ETags: conditional edits and conditional reads."""

from itertools import product

import httpx
import pytest

from tests.support.service import Service

KPI = "/benchmarks/bench-001/kpis/quality"
THINGS = {
    "/agents/agent-001": {"name": "Heron"},
    "/benchmarks/bench-001": {"datasetRef": "other"},
    KPI: {"name": "quality", "formula": "BLEU"},
}
OTHERWISE = {
    "/agents/agent-001": {"name": "Pelican"},
    "/benchmarks/bench-001": {"datasetRef": "support"},
    KPI: {"formula": "ROUGE"},
}
# A benchmark that is deleted takes its KPI with it.
LEAVES_FIRST = list(reversed(THINGS))


@pytest.fixture(autouse=True)
def things(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(measures=[{"id": "quality", "name": "quality", "formula": "ROUGE"}])


def tag(service: Service, path: str) -> str:
    return service.send("GET", path).headers["ETag"]


def edit(service: Service, method: str, path: str, if_match: str | None) -> httpx.Response:
    body = None if method == "DELETE" else THINGS[path]
    headers = {} if if_match is None else {"If-Match": if_match}
    return service.send(method, path, body, headers=headers)


def test_if_match__current_etag_edits_and_returns_the_next_etag(
    service: Service,
) -> None:
    for path in LEAVES_FIRST:
        for method in ("PATCH", "PUT"):
            before = tag(service, path)
            answer = edit(service, method, path, before)
            assert answer.status_code == 200
            assert answer.headers["ETag"] == tag(service, path)
        assert edit(service, "DELETE", path, tag(service, path)).status_code == 204


def test_if_match__stale_etag_is_refused_and_changes_nothing(
    service: Service,
) -> None:
    for path, method in product(THINGS, ["PATCH", "PUT", "DELETE"]):
        stale = tag(service, path)
        # An edit to equal values makes no revision; at least one of the two makes one.
        assert service.send("PATCH", path, OTHERWISE[path]).status_code == 200
        assert edit(service, "PATCH", path, None).status_code == 200
        current_view = service.get(path)
        # If-Match compares strongly (RFC 9110): a weak tag never matches.
        for if_match in (stale, f'"77", {stale}', "W/" + tag(service, path), '"', "nonsense", "1"):
            refused = edit(service, method, path, if_match)
            assert refused.status_code == 412
            assert refused.json()["type"] == "/problems/precondition-failed"
        assert service.get(path) == current_view


def test_if_match__star_and_missing_header_edit_without_a_check(service: Service) -> None:
    for path in LEAVES_FIRST:
        assert edit(service, "PATCH", path, "*").status_code == 200
        assert edit(service, "PUT", path, None).status_code == 200
        assert edit(service, "DELETE", path, "*").status_code == 204
        assert edit(service, "DELETE", path, "*").status_code == 404


def test_if_none_match__current_etag_gives_304_without_a_body(service: Service) -> None:
    for path in THINGS:
        current_etag = tag(service, path)
        # If-None-Match compares weakly.
        for header in (current_etag, f'"7", W/{current_etag}', "*"):
            answer = service.send("GET", path, headers={"If-None-Match": header})
            assert (answer.status_code, answer.content) == (304, b"")
            assert answer.headers["ETag"] == current_etag
        edit(service, "PATCH", path, None)
        assert service.send("GET", path, headers={"If-None-Match": current_etag}).status_code == 200


def test_if_match__kpi_edit_changes_the_etag_of_its_benchmark(service: Service) -> None:
    stale = tag(service, "/benchmarks/bench-001")
    service.patch(KPI, {"formula": "BLEU"})
    assert edit(service, "PUT", "/benchmarks/bench-001", stale).status_code == 412


def test_if_match__only_one_of_two_edits_of_the_same_version_succeeds(service: Service) -> None:
    current_etag = tag(service, "/agents/agent-001")
    answers = [edit(service, "PATCH", "/agents/agent-001", current_etag) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 412]
