"""Runs with a regression, from the traces to the message, whose values can be compared with each other.

Each scenario has an agent, a benchmark, rules and a recipient of its own, so that no value depends on another
scenario. Its texts contain its label, so that no value is reused.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.integration.notifications.conftest import EndpointRequest, Receiver
from tests.support.deployment import QUESTIONS, Deployment
from tests.support.service import JSON
from tests.support.stored import varied_pairs

# Every third question is answered wrongly in the second run.
WRONG = range(0, QUESTIONS, 3)

# Each row as JSON, without its own numbers, in an order that follows from its content.
OF_RUN: Mapping[str, str] = {
    "traces": """
        SELECT to_jsonb(trace) - 'collection_id' FROM collected_traces AS trace
        JOIN benchmark_runs AS run USING (collection_id) WHERE run.id = %s ORDER BY position
    """,
    "results": """
        SELECT to_jsonb(result) - 'run_seq' FROM trace_results AS result
        JOIN benchmark_runs AS run ON run.seq = run_seq WHERE run.id = %s ORDER BY position
    """,
    "aggregates": """
        SELECT to_jsonb(aggregate) - 'run_seq' FROM run_metrics AS aggregate
        JOIN benchmark_runs AS run ON run.seq = run_seq WHERE run.id = %s ORDER BY ordinal
    """,
    "KPIs": """
        SELECT to_jsonb(kpi) - '{id, run_seq, recorded_at}'::text[] FROM kpi_history AS kpi
        WHERE run_id = %s ORDER BY name
    """,
    "verdict": """
        SELECT jsonb_build_object(
            'status', status, 'verdict', verdict, 'validity', validity, 'reasons', validity_reasons,
            'coverage', coverage, 'error_share', error_share, 'warning', metric_warning,
            'shards', array[shards_done, shards_total], 'new', has_new_data, 'hold', baseline_hold,
            'counts', array[traces_total, traces_collected, traces_processed, metrics_computed, metrics_reused])
        FROM benchmark_runs WHERE id = %s
    """,
    "series": """
        SELECT to_jsonb(point) - 'run_seq' FROM run_series AS point
        JOIN benchmark_runs AS run ON run.seq = run_seq WHERE run.id = %s ORDER BY series
    """,
    "evaluations": """
        SELECT to_jsonb(evaluation) - 'run_seq' FROM run_evaluations AS evaluation
        JOIN benchmark_runs AS run ON run.seq = run_seq WHERE run.id = %s ORDER BY rule_name
    """,
}
OF_SCENARIO: Mapping[str, str] = {
    "events": """
        SELECT to_jsonb(event) - 'run_seq' FROM alert_events AS event
        WHERE benchmark_id = %s ORDER BY run_seq, name, state
    """,
    "incidents": """
        SELECT to_jsonb(incident) - '{fingerprint, started_seq, opened_seq, end_seq, run_seqs}'::text[]
            || jsonb_build_object('runs', cardinality(run_seqs))
        FROM incidents AS incident WHERE benchmark_id = %s ORDER BY name
    """,
    "notifications": """
        SELECT to_jsonb(notification) FROM notifications AS notification
        WHERE message::text LIKE '%%' || %s || '%%' ORDER BY title, topic
    """,
    "deliveries": """
        SELECT jsonb_build_object('of', title, 'status', status, 'detail', detail)
        FROM deliveries JOIN notifications AS notification ON notification.id = notification_id
        WHERE message::text LIKE '%%' || %s || '%%' ORDER BY title, topic
    """,
}
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Fields of the state of a series that hold numbers of runs.
RUN_NUMBERS = re.compile(
    r'"(?:since|opened|started)": \d+|"(?:levelRuns|runs|reference)": \[[\d, ]*\]'
)
TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(\+00:00|Z| UTC)?")
SETTLED = """
    SELECT status = 'COMPLETED'
       AND EXISTS (SELECT FROM alert_events WHERE run_id = run.id)
       AND NOT EXISTS (SELECT FROM alert_events WHERE run_id = run.id AND publish_by IS NOT NULL)
       AND NOT EXISTS (
           SELECT FROM deliveries JOIN notifications ON notifications.id = notification_id
           WHERE message::text LIKE '%%' || run.benchmark_id || '%%' AND deliveries.status <> 'DELIVERED')
    FROM benchmark_runs AS run WHERE id = %s
"""
PROGRESS = """
    SELECT CASE WHEN status <> 'RUNNING' THEN lower(status)
                WHEN shards_total IS NULL THEN format('%%s traces', traces_collected)
                WHEN shards_done < shards_total THEN format('shard %%s of %%s', shards_done, shards_total)
                ELSE 'finishing' END
    FROM benchmark_runs WHERE id = %s
"""

ScenarioValues = Mapping[str, list[str]]


class RegressionScenario(NamedTuple):
    """A benchmark with a good run, and traces of a worse one, which is started by `start`."""

    deployment: Deployment
    receiver: Receiver
    label: str

    @property
    def run_name(self) -> str:
        return f"{self.label}-second"

    def start(self) -> str:
        return self._start(self.run_name)

    def _start(self, run_name: str) -> str:
        run = self.deployment.service.start_run(
            benchmarkId=self.label, agentId=self.label, runName=run_name
        )
        return str(run["id"])

    def prepare(self, count: int) -> None:
        """Complete the good run and upload the traces of the other one, `count` each."""
        self._create_benchmark()
        self._upload(f"{self.label}-first", count)
        self.deployment.completed_run(self._start(f"{self.label}-first"))
        self._upload(self.run_name, count, wrong=WRONG)

    def _create_benchmark(self) -> None:
        service = self.deployment.service
        service.create_agent(self.label)
        judge = {"key": "LLM_JUDGE", "options": {"prompt": "{input}: {output}"}}
        service.create_benchmark(
            self.label,
            source="gated",
            datasetRef=self.label,
            metrics=["ROUGE", "ACCURACY", {"key": "GATE", "options": {}}, judge],
            measures=[{"name": "quality", "formula": "WEIGHTED_SUM(ROUGE:0.5, LLM_JUDGE:0.5)"}],
        )
        rules: list[JSON] = [
            {"name": "quality fell", "kpi": "quality", "condition": "REGRESSED"},
            {"name": "low ROUGE", "metric": "ROUGE", "condition": "LESS_THAN", "threshold": 0.9},
        ]
        for rule in rules:
            recipients = [self.receiver.at(self.label)]
            fields = {
                "benchmarkId": self.label,
                "channels": ["WEBHOOK"],
                "recipients": recipients,
            }
            service.post("/alert-configs", {**rule, **fields})

    def _upload(self, run_name: str, count: int, *, wrong: range = range(0)) -> None:
        answers = varied_pairs(QUESTIONS)
        traces = varied_pairs(count)
        for number, trace in enumerate(traces):
            question = number % QUESTIONS
            # A question has one answer, so that the judge is asked a few times only.
            answer = answers[question]
            wanted = "output" if question in wrong else "expectedOutput"
            trace |= {
                "input": f"{run_name}, question {question}",
                "expectedOutput": answer["expectedOutput"],
                "output": answer[wanted],
            }
        # One trace of the second run waits in its metric until a test opens the gate.
        if wrong:
            traces[-1]["tags"] = [f"gate:{self.label}"]
        self.deployment.service.upload(traces, self.label, run_name)

    def open_gate(self) -> None:
        self.deployment.programs.gate(self.label).open()

    def is_at_gate(self) -> bool:
        return self.deployment.programs.gate(self.label).is_reached()

    def is_settled(self, run_id: str) -> bool:
        """Whether the run is complete and all its messages were delivered."""
        status = self.deployment.database.status(run_id)
        assert status not in ("FAILED", "CANCELLED"), self.deployment.service.get(
            f"/benchmark-runs/{run_id}"
        )
        return bool(self.deployment.database.value(SETTLED, run_id))

    def progress(self, run_id: str) -> str:
        return str(self.deployment.database.value(PROGRESS, run_id))

    def requests(self) -> list[EndpointRequest]:
        return [call for call in self.receiver.calls if call.path == self.label]

    def values(self, run_id: str) -> ScenarioValues:
        """Every row that the scenario stored and every message that was received.

        IDs are replaced by their order, the label and times by words. A message that was sent again under
        the same ID counts once: for the recipient it is the same message.
        """
        run_seq = self.deployment.database.value(
            "SELECT seq FROM benchmark_runs WHERE id = %s", run_id
        )
        naming = _Names(self.label, run_seq)
        values: dict[str, list[str]] = {}
        for queries, owner in ((OF_RUN, run_id), (OF_SCENARIO, self.label)):
            for kind, query in queries.items():
                rows = self.deployment.database.all(query, owner)
                values[kind] = [naming.replace_in(row) for [row] in rows]
        messages = {(call.headers["webhook-id"], call.body) for call in self.requests()}
        documents = sorted(
            (json.loads(body) for _, body in messages), key=lambda body: str(body["data"]["title"])
        )
        return {**values, "messages": [naming.replace_in(document) for document in documents]}


class _Names:
    """Replaces what differs between two scenarios by what they have in common."""

    def __init__(self, label: str, run_seq: int) -> None:
        self._label = label
        self._run_seq = run_seq
        self._ids: dict[str, str] = {}

    def replace_in(self, document: object) -> str:
        text = json.dumps(document, sort_keys=True).replace(self._label, "scenario")
        text = ID.sub(lambda found: self._ids.setdefault(found[0], f"id-{len(self._ids)}"), text)
        text = RUN_NUMBERS.sub(self._count_from_run, text)
        return TIME.sub("time", text)

    def _count_from_run(self, field: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda number: str(int(number[0]) - self._run_seq), field[0])


class Comparison(NamedTuple):
    """How many rows and messages a scenario lacks, how many it has twice, and what differs."""

    lost: int
    doubled: int
    differences: list[str]

    def require_equality(self, name: str) -> None:
        summary = f"{name}: {self.lost} lost, {self.doubled} doubled"
        assert self == (0, 0, []), "\n".join([summary, *self.differences[:20]])


def compare_values(expected: ScenarioValues, values: ScenarioValues) -> Comparison:
    differences = [
        f"{kind}{difference}"
        for kind in expected
        for expected_value, value in zip(expected[kind], values[kind], strict=False)
        if expected_value != value
        for difference in _differences(json.loads(expected_value), json.loads(value))
    ]
    return Comparison(_surplus(expected, values), _surplus(values, expected), differences)


def _surplus(values: ScenarioValues, others: ScenarioValues) -> int:
    return sum(max(0, len(rows) - len(others[kind])) for kind, rows in values.items())


def _differences(expected: object, value: object) -> Iterator[str]:
    """The fields of two documents that differ."""
    if isinstance(expected, dict) and isinstance(value, dict):
        for key in sorted(expected.keys() | value.keys()):
            for difference in _differences(expected.get(key), value.get(key)):
                yield f".{key}{difference}"
    elif expected != value:
        yield f": {value} instead of {expected}"
