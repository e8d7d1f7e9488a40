from tests.support.service import Service


def test_a_misspelt_filter_is_refused_and_not_ignored(service: Service) -> None:
    answer = service.client.get("/api/v1/benchmark-runs?benchmarkid=nope&limit=5&x%00=1")
    assert answer.status_code in (400, 422)
    answer = service.client.get("/api/v1/benchmark-runs?benchmarkid=nope&limit=5")
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["pointer"] == "benchmarkid"
    assert "Did you mean benchmarkId" in error["detail"]


def test_a_route_without_parameters_says_that_it_has_none(service: Service) -> None:
    answer = service.client.get("/api/v1/metrics?limit=5")
    assert answer.status_code == 422
    assert "it has none" in answer.json()["errors"][0]["detail"]
