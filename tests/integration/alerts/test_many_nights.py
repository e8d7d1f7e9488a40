"""Many nights of one agent over the API, with a rule of each condition: late and repeated runs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.integration.alerts.conftest import notified_states
from tests.integration.alerts.test_judged_runs import held_jobs
from tests.support.service import JSON, Service, pair
from tests.support.stored import DatabaseReader

ITEMS = 10


class Story(NamedTuple):
    """Nights by their numbers. In the bad ones half of the answers are wrong; a late one ends after the night that
    follows it; a repeated one is run three times. The last rules are made before the night `new_rules`.
    """

    nights: int
    bad: range
    late: tuple[int, int]
    repeated: tuple[int, ...]
    new_rules: int

    def first_night(self, condition: str) -> int:
        """The first night that a rule judges."""
        return self.new_rules if condition in NEW_RULES else 0


SHORT = Story(nights=14, bad=range(8, 12), late=(5, 9), repeated=(11,), new_rules=4)
SIXTY = Story(nights=60, bad=range(30, 40), late=(12, 33), repeated=(5, 25, 35, 50), new_rules=20)
RULES: list[dict[str, Any]] = [
    {"condition": "LESS_THAN", "threshold": 0.8},
    {"condition": "GREATER_THAN", "threshold": 0.8},
    {"condition": "EQUALS", "threshold": 0.5},
    {"condition": "NOT_EQUALS", "threshold": 0.9},
    {"condition": "PERCENTAGE_DROP", "threshold": 20},
    {"condition": "PERCENTAGE_RISE", "threshold": 20},
    {"condition": "ANOMALY_DETECTED", "threshold": None},
    {"condition": "REGRESSED", "threshold": None},
]
NEW_RULES = {"EQUALS", "PERCENTAGE_RISE", "REGRESSED"}


def upload(service: Service, story: Story, night: int) -> None:
    right = ITEMS // 2 if night in story.bad else ITEMS - 1
    traces = [
        pair(number, "yes", "yes" if number < right else "no")
        | {"traceId": f"trace-{night}-{number}"}
        for number in range(ITEMS)
    ]
    service.upload(traces, run_name=f"night-{night}")


def run_nights(
    service: Service, rows: DatabaseReader, story: Story, make_rules: Callable[[Story, int], None]
) -> list[JSON]:
    """The first run of each night."""
    runs: dict[int, JSON] = {}
    for night in range(story.nights):
        make_rules(story, night)
        if night - 1 in story.late:
            late = service.start_run(runName=f"night-{night - 1}")
            with held_jobs(rows, late):
                upload(service, story, night)
                runs[night] = service.complete_run(runName=f"night-{night}")
            service.work()
            runs[night - 1] = service.get(f"/benchmark-runs/{late['id']}")
            continue
        upload(service, story, night)
        if night in story.late:
            continue
        count = 3 if night in story.repeated else 1
        made = [service.complete_run(runName=f"night-{night}") for _ in range(count)]
        assert {run["sameDataAs"] for run in made[1:]} <= {made[0]["id"]}
        runs[night] = made[0]
    return [runs[night] for night in range(story.nights)]


@pytest.fixture
def make_rules(benchmark_service: Service) -> Callable[[Story, int], None]:
    def make(story: Story, night: int) -> None:
        for rule in RULES:
            condition = rule["condition"]
            if night == story.first_night(condition):
                benchmark_service.post(
                    "/alert-configs",
                    {
                        **rule, "id": condition, "name": condition, "benchmarkId": "bench-001",
                        "kpi": "quality",
                    },
                )  # fmt: skip

    return make


def evaluations_of(service: Service, runs: list[JSON]) -> dict[str, list[JSON]]:
    """By rule, what it made of each night; the nights before it was made are left out."""
    evaluations: dict[str, list[JSON]] = {rule["condition"]: [] for rule in RULES}
    for run in runs:
        for evaluation in service.get(f"/benchmark-runs/{run['id']}/evaluations")["items"]:
            evaluations[evaluation["name"]].append(evaluation | {"runId": run["id"]})
    return evaluations


@pytest.mark.parametrize("story", [SHORT, pytest.param(SIXTY, marks=pytest.mark.prove)])
def test_nights__every_run_is_judged_by_every_rule(
    story: Story,
    benchmark_service: Service,
    rows: DatabaseReader,
    make_rules: Callable[[Story, int], None],
) -> None:
    runs = run_nights(benchmark_service, rows, story, make_rules)
    assert {run["validity"] for run in runs} == {"VALID"}
    assert [night for night, run in enumerate(runs) if run["isLate"]] == list(story.late)
    evaluations = evaluations_of(benchmark_service, runs)
    results = {
        rule: [evaluation["result"] for evaluation in by_night]
        for rule, by_night in evaluations.items()
    }
    for condition, by_night in results.items():
        nights = range(story.first_night(condition), story.nights)
        assert len(by_night) == len(nights), condition
        late = [night for night, result in zip(nights, by_night, strict=True) if result == "LATE"]
        assert late == [night for night in story.late if night in nights], condition

    def fired(condition: str) -> list[int]:
        first = story.first_night(condition)
        return [
            night for night, result in enumerate(results[condition], first) if result == "FIRED"
        ]

    # The value is 0.9, and 0.5 in the bad nights.
    bad = [night for night in story.bad if night not in story.late]
    good = [night for night in range(story.nights) if night not in {*story.bad, *story.late}]
    assert fired("LESS_THAN") == fired("NOT_EQUALS") == fired("EQUALS") == bad
    assert fired("GREATER_THAN") == good
    # The bad nights are no history of the rules that fired about them.
    assert fired("PERCENTAGE_DROP") == fired("ANOMALY_DETECTED") == bad
    # For a rule about rises they were ordinary, and their end is one.
    assert fired("PERCENTAGE_RISE") == list(range(story.bad.stop, story.nights))
    assert fired("REGRESSED")[:1] == [story.bad.start]
    assert set(fired("REGRESSED")) >= set(bad)

    # Each incident was told once, and the late breach for its own night.
    states = notified_states(benchmark_service)
    late_breaches = [
        alert["alertConfigId"] for alert in benchmark_service.list_items("/alerts", state="LATE")
    ]
    assert "GREATER_THAN" not in late_breaches
    opened = len(benchmark_service.list_items("/incidents"))
    assert states.count("FIRING") == opened
    for rule_id, judged_nights in evaluations.items():
        check_backtest(benchmark_service, rule_id, story, judged_nights)


def check_backtest(service: Service, rule_id: str, story: Story, evaluations: list[JSON]) -> None:
    """The backtest and the test of a rule say what was said live."""
    backtest = service.post("/alert-configs/backtest", {"alertConfigId": rule_id, "days": 3660})
    replayed = {run["runId"]: run for run in backtest["runs"]}
    assert len(replayed) == story.nights + 2 * len(story.repeated)
    for live in evaluations:
        again = replayed[live["runId"]]
        # With the numbers of the evidence, which the explanation has.
        names = ("result", "outcome", "state", "value", "explanation")
        assert [live[name] for name in names] == [again[name] for name in names], (rule_id, live)
    [state] = service.get(f"/alert-configs/{rule_id}")["states"]
    assert state["state"] == backtest["runs"][-1]["state"]
    [assessment] = service.post(f"/alert-configs/{rule_id}/test")["assessments"]
    assert assessment["outcome"] == backtest["runs"][-1]["outcome"]
