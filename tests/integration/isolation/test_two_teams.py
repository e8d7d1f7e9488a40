"""What one team creates, renames and deletes changes nothing of the nightly runs of another."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.support.service import JSON, Service, pair

NIGHTS: Final = 7
ITEMS: Final = 30
# By hand: of 30 answers 27 are right in the first nights, and 9 from the sixth night on.
RIGHT: Final = (27, 26, 28, 27, 27, 9, 9)
CHANGES_PER_NIGHT: Final = 6
_TIMES: Final = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d(:\d\d)?|\d+ (seconds?|minutes?|hours?)")


def night_traces(right: int) -> list[JSON]:
    return [pair(number, output="x" if number >= right else "a b c d") for number in range(ITEMS)]


def _without_times(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    return _TIMES.sub("…", value) if isinstance(value, str) else value


@dataclass
class NightlyTeam:
    """Team A: an agent without a list of agents in its benchmark, a schedule, and two alert rules."""

    service: Service

    def create(self) -> None:
        # A limit of false alarms for all series of the service.
        self.service.resources.options["false_pages_per_month"] = "0.1"  # type: ignore[index]
        kpi = {"id": "quality", "name": "Quality", "formula": "ACCURACY"}
        self.service.create_agent("a-agent", name="Bot of A")
        self.service.create_benchmark(
            "a-bench", datasetRef="a-set", metrics=["ACCURACY"], measures=[kpi]
        )
        target = {"benchmarkId": "a-bench", "agentId": "a-agent"}
        rules: tuple[JSON, ...] = (
            {"condition": "LESS_THAN", "threshold": 0.5, "kpi": "Quality"},
            {"condition": "REGRESSED", "kpi": "quality"},
            {"condition": "LESS_THAN", "threshold": 0.5, "metric": "ACCURACY.mean"},
        )
        for number, rule in enumerate(rules):
            body = {"name": f"A {number}", "benchmarkId": "a-bench", "severity": "WARNING"}
            self.service.post("/alert-configs", {**body, "channels": ["IN_APP"], **rule})
        nightly = {"id": "a-nightly", "name": "A nightly", "cronExpression": "0 0 3 * * *"}
        self.service.post("/schedule-configs", {**nightly, **target})

    def run_night(self, number: int) -> None:
        self.service.upload(night_traces(RIGHT[number]), name="a-set", run_name=f"night-{number}")
        self.service.post("/schedule-configs/a-nightly/trigger")
        self.service.work()

    def results(self) -> list[Any]:
        """Everything that the team reads about its runs, without IDs and times."""
        service = self.service
        runs = service.list_items("/benchmark-runs", benchmarkId="a-bench")
        history = service.list_items("/kpi-history", benchmarkId="a-bench", kpi="Quality")
        alerts = service.list_items("/alerts", benchmarkId="a-bench")
        inbox = service.list_items("/notifications")
        pages = {f"/runs/{run['id']}" for run in runs}
        schedule = service.get("/schedule-configs/a-nightly")
        rules = service.list_items("/alert-configs", benchmarkId="a-bench")
        return [
            [
                [
                    *self._pick(
                        run, "status", "runName", "errorCode", "validity", "validityReasons"
                    ),
                    (run["verdict"] or {}).get("verdict"),
                ]
                for run in runs
            ],
            [
                [
                    *self._pick(value, "name", "value", "intervalLow", "intervalHigh", "formula"),
                    (value["verdict"] or {}).get("verdict"),
                ]
                for value in history
            ],
            sorted(
                self._pick(alert, "name", "state", "severity", "value", "baseline", "explanation")
                for alert in alerts
            ),
            [
                [self._pick(item, "title", "sentences") for item in [message, *message["items"]]]
                for message in inbox
                if message["link"] in pages
            ],
            self._pick(schedule, "enabled", "consecutiveFailures", "disabledReason"),
            sorted(
                [
                    rule["name"],
                    rule["promisedFalsePages"],
                    [state["state"] for state in rule["states"]],
                ]
                for rule in rules
            ),
            sorted((alert["details"]["runs"] or {}).get("limit", 0) for alert in alerts),
        ]

    @staticmethod
    def _pick(document: JSON, *names: str) -> list[Any]:
        return [_without_times(document[name]) for name in names]


@dataclass
class RandomTeam:
    """Team B: creates, renames, runs and deletes resources of its own at random.

    It uses the IDs and names of team A wherever the service lets it.
    """

    service: Service
    numbers: random.Random
    agents: list[str] = field(default_factory=list)
    benchmarks: list[str] = field(default_factory=list)
    created: int = 0

    def change_something(self) -> None:
        changes: list[Callable[[], None]] = [self._create_agent, self._create_benchmark]
        if self.agents:
            changes += [self._rename_agent, self._archive_agent, self._upload, self._delete_agent]
        if self.benchmarks:
            changes += [
                self._add_kpi, self._rename_kpi, self._delete_kpi, self._add_rule, self._silence,
                self._rename_benchmark, self._delete_benchmark,
            ]  # fmt: skip
        if self.agents and self.benchmarks:
            changes += [self._run, self._add_schedule, self._upload]
        self.numbers.choice(changes)()

    def _next_id(self, prefix: str) -> str:
        self.created += 1
        return f"b-{prefix}-{self.created}"

    def _send(self, method: str, path: str, body: Any = None) -> bool:
        """Send a request, which may be a conflict with other resources of the team."""
        response = self.service.send(method, path, body)
        assert response.status_code < 500, response.text
        return response.is_success

    def _create_agent(self) -> None:
        agent_id = self._next_id("agent")
        self.service.create_agent(agent_id, name=self.numbers.choice(["Bot of A", "Bot of B"]))
        self.agents.append(agent_id)

    def _create_benchmark(self) -> None:
        benchmark_id = self._next_id("bench")
        kpi = {"id": "quality", "name": "Quality", "formula": "2 * ACCURACY"}
        self.service.create_benchmark(
            benchmark_id,
            datasetRef=self.numbers.choice(["a-set", "b-set"]),
            metadata={"name": self.numbers.choice(["a-bench", "Benchmark of B"])},
            measures=[kpi],
        )
        self.benchmarks.append(benchmark_id)

    def _rename_agent(self) -> None:
        name = self.numbers.choice(["a-agent", "Bot of A", "Other"])
        self._send("PATCH", f"/agents/{self.numbers.choice(self.agents)}", {"name": name})

    def _archive_agent(self) -> None:
        body = {"archived": self.numbers.choice([True, False])}
        self._send("PATCH", f"/agents/{self.numbers.choice(self.agents)}", body)

    def _delete_agent(self) -> None:
        agent_id = self.numbers.choice(self.agents)
        if self._send("DELETE", f"/agents/{agent_id}"):
            self.agents.remove(agent_id)

    def _rename_benchmark(self) -> None:
        body = {"metadata": {"name": self.numbers.choice(["a-bench", "Quality"])}}
        self._send("PATCH", f"/benchmarks/{self.numbers.choice(self.benchmarks)}", body)

    def _delete_benchmark(self) -> None:
        benchmark_id = self.numbers.choice(self.benchmarks)
        if self._send("DELETE", f"/benchmarks/{benchmark_id}"):
            self.benchmarks.remove(benchmark_id)

    def _add_kpi(self) -> None:
        kpi = {
            "id": self.numbers.choice(["quality", "Quality", "k"]),
            "name": self.numbers.choice(["Quality", "quality", "Grade"]),
            "formula": self.numbers.choice(["ROUGE", "1 - ACCURACY"]),
        }
        self._send("POST", f"/benchmarks/{self.numbers.choice(self.benchmarks)}/kpis", kpi)

    def _rename_kpi(self) -> None:
        body = {"name": self.numbers.choice(["Grade", "quality", "Quality"])}
        path = f"/benchmarks/{self.numbers.choice(self.benchmarks)}/kpis/quality"
        self._send("PATCH", path, body)

    def _delete_kpi(self) -> None:
        self._send("DELETE", f"/benchmarks/{self.numbers.choice(self.benchmarks)}/kpis/quality")

    def _add_rule(self) -> None:
        conditions: list[JSON] = [
            {"condition": "REGRESSED"},
            {"condition": "GREATER_THAN", "threshold": 0.1},
        ]
        rule = {
            "name": self.numbers.choice(["A 0", "A 1", "B"]),
            "benchmarkId": self.numbers.choice(self.benchmarks),
            "kpi": "quality",
            "severity": "CRITICAL",
            "channels": ["IN_APP"],
            **self.numbers.choice(conditions),
        }
        self._send("POST", "/alert-configs", rule)

    def _silence(self) -> None:
        matchers = {"benchmarkId": self.numbers.choice(self.benchmarks), "name": "A *"}
        body = {"matchers": matchers, "endsAt": "2999-01-01T00:00:00Z", "comment": "B"}
        self._send("POST", "/alert-silences", body)

    def _add_schedule(self) -> None:
        body = {
            "name": "A nightly",
            "benchmarkId": self.numbers.choice(self.benchmarks),
            "agentId": self.numbers.choice(self.agents),
            "cronExpression": "0 0 3 * * *",
        }
        self._send("POST", "/schedule-configs", body)

    def _upload(self) -> None:
        # Of an agent of its own, also for the dataset of team A.
        self.service.client.post(
            "/api/v1/local-datasets",
            params={
                "name": self.numbers.choice(["a-set", "b-set"]),
                "runName": self.numbers.choice(["night-1", "night-5", self._next_id("run")]),
                "agentId": self.numbers.choice(self.agents),
            },
            content=b'{"traceId": "b", "expectedOutput": "x", "output": "y"}\n',
            headers={"Content-Type": "application/x-ndjson"},
        )

    def _run(self) -> None:
        body = {
            "benchmarkId": self.numbers.choice(self.benchmarks),
            "agentId": self.numbers.choice(self.agents),
        }
        self._send("POST", "/benchmark-runs", body)


@pytest.fixture(scope="module")
def undisturbed(module_service: Service) -> list[Any]:
    """The results of team A where nobody else uses the service."""
    team = NightlyTeam(module_service)
    team.create()
    for number in range(NIGHTS):
        team.run_night(number)
    return team.results()


def test_nightly_runs__without_another_team_are_measured_and_told(undisturbed: list[Any]) -> None:
    runs, history, alerts, messages, schedule, rules, _ = undisturbed
    assert [run[:4] for run in runs] == [
        ["COMPLETED", f"night-{number}", None, "VALID"] for number in reversed(range(NIGHTS))
    ]
    expected = [pytest.approx(right / ITEMS) for right in reversed(RIGHT)]
    assert [value[1] for value in history] == expected
    assert [alert[:2] for alert in alerts] == [[f"A {number}", "FIRING"] for number in range(3)]
    assert messages
    assert schedule == [True, 0, None]
    assert [promised for _, promised, _ in rules] == [None, 0.1, None]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.prove) for seed in (1, 2))]
)
def test_nightly_runs__are_the_same_beside_another_team(
    service: Service, undisturbed: list[Any], seed: int
) -> None:
    team, others = NightlyTeam(service), RandomTeam(service, random.Random(seed))
    team.create()
    # At least one agent and one benchmark of the other team exist in every walk.
    others._create_agent()
    others._create_benchmark()
    for number in range(NIGHTS):
        for _ in range(CHANGES_PER_NIGHT):
            others.change_something()
        team.run_night(number)
    assert team.results() == undisturbed
