"""Unknown query parameters are refused."""

from tests.support.service import Service


def test_query_parameters__unknown_filter_is_refused(service: Service) -> None:
    answer = service.client.get("/api/v1/benchmark-runs?benchmarkid=nope&limit=5")
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["pointer"] == "benchmarkid"
    assert "Did you mean benchmarkId" in error["detail"]


def test_query_parameters__name_with_nul_is_refused(service: Service) -> None:
    answer = service.client.get("/api/v1/benchmark-runs?benchmarkid=nope&limit=5&x%00=1")
    assert answer.status_code == 400
    assert answer.json()["type"].endswith("/invalid-path")
    assert "NUL (%00)" in answer.json()["detail"]
