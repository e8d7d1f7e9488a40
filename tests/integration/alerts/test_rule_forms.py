"""The form of an alert rule offers the fields that its condition takes, also without a script."""

import re

import pytest

from mosaico.alerts.pages.rule_forms import FORM, unused_fields
from mosaico.alerts.rules import Condition
from mosaico.core.web.forms.rendering import iter_fields
from tests.support.page_reads import HTML, read_page
from tests.support.service import Service

CONDITIONAL = {"threshold", "forRuns", "baselineRuns", "minimumEffect", "falsePagesPerMonth"}
TAKEN = {
    Condition.REGRESSED: {"minimumEffect", "falsePagesPerMonth"},
    Condition.LESS_THAN: {"threshold", "forRuns"},
    Condition.PERCENTAGE_DROP: {"threshold", "forRuns", "baselineRuns", "minimumEffect"},
    Condition.ANOMALY_DETECTED: {"threshold", "forRuns", "minimumEffect"},
}


def conditional_fields(page: str) -> set[str]:
    return CONDITIONAL & set(re.findall(r'<(?:input|select|textarea)[^>]* name="([^"]+)"', page))


@pytest.fixture
def benchmark_id(service: Service) -> str:
    service.create_agent()
    return str(service.create_benchmark(metrics=["EXACT_MATCH"])["id"])


def fields_of(benchmark_id: str, condition: Condition, **more: str) -> dict[str, str]:
    return {
        "form": "1", "name": "falls", "benchmarkId": benchmark_id, "metric": "EXACT_MATCH",
        "condition": condition, "channels": "IN_APP", "severity": "WARNING", "noData": "NO_DATA",
        "cooldownMinutes": "0", "enabled": "1", **more,
    }  # fmt: skip


def test_unused_fields__are_fields_of_the_form() -> None:
    names = {name for name, _ in iter_fields(FORM, is_edit=False)}
    assert all(set(unused_fields(condition)) <= names for condition in Condition)


@pytest.mark.parametrize("condition", [*TAKEN])
def test_form__of_a_condition_has_its_fields_only(
    service: Service, benchmark_id: str, condition: Condition
) -> None:
    chosen = {**fields_of(benchmark_id, condition), "check": "1"}
    page = service.client.post("/alerts", data=chosen, headers=HTML).text
    assert conditional_fields(page) == TAKEN[condition]


def test_form__of_a_new_rule_has_the_fields_of_its_first_condition(
    service: Service, benchmark_id: str
) -> None:
    page = read_page(service, f"/new/alert-rule?benchmark={benchmark_id}")
    assert conditional_fields(page) == TAKEN[Condition.REGRESSED]


def test_form__another_condition_without_its_fields_asks_for_them(
    service: Service, benchmark_id: str
) -> None:
    """Without a script, the form may be sent with the fields of the condition that it had before."""
    sent = fields_of(benchmark_id, Condition.LESS_THAN, falsePagesPerMonth="0.2")
    answer = service.client.post("/alerts", data=sent, headers=HTML)
    assert answer.status_code == 422
    assert "needs a threshold" in answer.text
    assert conditional_fields(answer.text) == TAKEN[Condition.LESS_THAN]


def test_form__a_rule_that_gets_another_condition_loses_what_that_does_not_take(
    service: Service, benchmark_id: str
) -> None:
    rule = service.post(
        "/alert-configs",
        {"id": "rule-1", "name": "falls", "benchmarkId": benchmark_id, "metric": "EXACT_MATCH",
         "condition": "LESS_THAN", "threshold": 0.5, "forRuns": 3},
    )  # fmt: skip
    sent = fields_of(benchmark_id, Condition.REGRESSED, revision=str(rule["revision"]))
    answer = service.client.post("/alerts/rule-1", data=sent, headers=HTML)
    assert answer.status_code == 303, answer.text
    changed = service.get("/alert-configs/rule-1")
    assert (changed["condition"], changed["threshold"], changed["forRuns"]) == (
        "REGRESSED",
        None,
        1,
    )
