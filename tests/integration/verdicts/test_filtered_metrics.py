"""Metrics and KPIs over the traces of one category: values, intervals, verdicts, comparisons."""

import pytest

from mosaico.comparison.stored_run_comparison import ComparisonRequest, compare_runs
from tests.integration.verdicts.conftest import traces
from tests.support.page_reads import read_page
from tests.support.service import JSON, Service, run_mosaico

TEXT = 'ACCURACY{category="text"}'
CODE = 'ACCURACY{category="code"}'


def tagged(failed: range) -> list[JSON]:
    """40 items, of which the first 20 are of the category text."""
    return [
        trace | {"tags": ["category:text" if number < 20 else "category:code"]}
        for number, trace in enumerate(traces(failed))
    ]


@pytest.fixture(scope="module")
def service(module_service: Service) -> Service:
    """One service for this file, whose tests change none of its runs."""
    return module_service


@pytest.fixture(scope="module")
def two_runs(service: Service) -> tuple[JSON, JSON]:
    """Text is right in 18 of 20 items, then in 8; code stays at 20 of 20."""
    service.create_agent()
    service.create_benchmark(
        metrics=["ACCURACY", CODE],
        measures=[
            {"id": "text", "name": "text", "formula": TEXT},
            {"id": "gap", "name": "gap", "formula": f"{CODE} - {TEXT}"},
        ],
    )
    service.upload(tagged(range(2)), run_name="monday")
    first = service.complete_run(runName="monday")
    service.upload(tagged(range(12)), run_name="tuesday")
    return first, service.complete_run(runName="tuesday")


def rows_of(service: Service, run: JSON, resource: str, key: str) -> dict[str, JSON]:
    path = f"/benchmark-runs/{run['id']}/{resource}"
    return {row[key]: row for row in service.get(path)["items"]}


def test_filtered_metric__is_one_more_metric_of_the_run(
    service: Service, two_runs: tuple[JSON, JSON]
) -> None:
    first, second = two_runs
    metrics = rows_of(service, first, "metrics", "metric")
    assert list(metrics) == ["ACCURACY", CODE, TEXT]
    assert [metrics[name]["mean"] for name in metrics] == [0.95, 1.0, 0.9]
    assert (metrics[TEXT]["n"], metrics[TEXT]["coverage"], metrics[TEXT]["missing"]) == (20, 1, {})
    assert first["validity"] == "VALID"
    values = {name: row["value"] for name, row in rows_of(service, second, "kpis", "name").items()}
    assert values == pytest.approx({"text": 0.4, "gap": 0.6})


def test_filtered_metric__verdict_is_that_of_its_items(
    service: Service, two_runs: tuple[JSON, JSON]
) -> None:
    _, second = two_runs
    metrics = rows_of(service, second, "metrics", "metric")
    # 10 of 20 items of text became wrong: 2 · 2^-10 by McNemar, and none of code.
    assert metrics[TEXT]["verdict"]["verdict"] == "REGRESSED"
    assert metrics[TEXT]["verdict"]["effect"] == pytest.approx(-0.5)
    assert metrics[CODE]["verdict"]["verdict"] != "REGRESSED"
    kpis = rows_of(service, second, "kpis", "name")
    assert kpis["text"]["verdict"]["verdict"] == "REGRESSED"
    assert kpis["text"]["intervalLow"] < 0.4 < kpis["text"]["intervalHigh"]
    # Wilson for 8 of 20 items, not of 40.
    assert (kpis["text"]["intervalLow"], kpis["text"]["intervalHigh"]) == pytest.approx(
        (0.2188, 0.6134), abs=1e-3
    )
    assert kpis["gap"]["intervalLow"] < 0.6 < kpis["gap"]["intervalHigh"]


def test_filtered_metric__flipped_items_are_those_of_its_category(
    service: Service, two_runs: tuple[JSON, JSON]
) -> None:
    first, second = two_runs
    compared = compare_runs(
        service.resources.db, ComparisonRequest((first["id"],), second["id"], metric=TEXT)
    )
    assert compared.flipped_items is not None
    assert (compared.flipped_items.metric, compared.flipped_items.regressions) == (TEXT, 10)


def test_filtered_metric__mistakes_are_refused_at_the_benchmark(service: Service) -> None:
    body = {
        "id": "b",
        "source": "local",
        "datasetRef": "d",
        "metrics": [TEXT, "ACCURACY{category}"],
        "measures": [{"name": "x", "formula": f"{TEXT}.coverage"}],
    }
    refused = service.expect_problem(422, "POST", "/benchmarks", body)
    details = " ".join(error["detail"] for error in refused["errors"])
    assert "ACCURACY{category}" in details
    assert "coverage is a share of all traces" in details


def test_categories__are_listed_with_values_and_intervals(
    service: Service, two_runs: tuple[JSON, JSON]
) -> None:
    _, second = two_runs
    code, text = service.get(f"/benchmark-runs/{second['id']}/categories")["items"]
    assert (code["category"], code["items"]) == ("code", 20)
    assert (text["category"], text["items"]) == ("text", 20)
    [accuracy] = text["metrics"]
    assert (accuracy["metric"], accuracy["value"]) == ("ACCURACY", 0.4)
    # Wilson for 8 of 20 items.
    assert (accuracy["intervalLow"], accuracy["intervalHigh"]) == pytest.approx(
        (0.2188, 0.6134), abs=1e-3
    )
    assert [metric["value"] for metric in code["metrics"]] == [1.0]
    assert {kpi["name"]: kpi["value"] for kpi in text["kpis"]} == {"text": 0.4, "gap": None}


def test_categories__are_counted_and_read_page_by_page(
    service: Service, two_runs: tuple[JSON, JSON]
) -> None:
    path = f"/benchmark-runs/{two_runs[1]['id']}/categories"
    first = service.get(path, limit=1)
    assert ([item["category"] for item in first["items"]], first["total"]) == (["code"], 2)
    second = service.get(path, limit=1, cursor=first["nextCursor"])
    assert ([item["category"] for item in second["items"]], second["total"]) == (["text"], 2)
    assert second["nextCursor"] is None
    service.expect_problem(422, "GET", f"{path}?cursor=xyz")
    shown = run_mosaico(service, "runs", "categories", two_runs[1]["id"], "--limit", "1")
    assert "1 of 2 categories are shown; raise --limit to see more" in shown.stderr
    every = run_mosaico(service, "runs", "categories", two_runs[1]["id"])
    assert "categories are shown" not in every.stderr


def test_categories__run_without_the_field_has_none(
    service: Service, two_runs: tuple[JSON, JSON]
) -> None:
    path = f"/benchmark-runs/{two_runs[1]['id']}/categories"
    assert service.get(path, field="lang")["items"] == []
    service.expect_problem(422, "GET", f"{path}?field=a%20b")


def test_comparison__has_verdicts_by_category(
    service: Service, two_runs: tuple[JSON, JSON]
) -> None:
    first, second = two_runs
    compared = compare_runs(service.resources.db, ComparisonRequest((first["id"],), second["id"]))
    by_name = {category.category: category for category in compared.categories}
    assert sorted(by_name) == ["code", "text"]
    [text] = by_name["text"].metrics
    assert text.metric == "ACCURACY"
    assert (text.verdict.baseline_value, text.verdict.value) == (0.9, 0.4)
    assert text.verdict.verdict == "REGRESSED"
    assert text.verdict.p is not None
    # Two categories: the smaller p-value is doubled.
    assert text.verdict.p_adjusted == pytest.approx(2 * text.verdict.p)
    [code] = by_name["code"].metrics
    assert code.verdict.verdict != "REGRESSED"


def test_report__has_a_table_by_category(service: Service, two_runs: tuple[JSON, JSON]) -> None:
    page = read_page(service, f"/api/v1/benchmark-runs/{two_runs[1]['id']}/report")
    table = page[page.index("By category</h2>") :]
    assert '<th scope="row" class="name">text</th><td class="num">20</td>' in table
    assert ">0.400 (0.219 to 0.613)</td>" in table
