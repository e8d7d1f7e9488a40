"""Random histories: what a rule made of each run live is what its backtest and its test make of the stored runs.

Runs start in parallel and end late, repeat the data of others, are invalid, are retried and scored again, and end
while another one is evaluated; rules are made and edited in between.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.alerts import queries
from mosaico.alerts.evaluation import rule_history
from mosaico.alerts.evaluation.rule_history import RunHistoryReader
from mosaico.alerts.evaluation.run_evaluation import AlertDecision
from mosaico.alerts.evaluation.state_memory import memory_of
from mosaico.alerts.models import AlertState
from mosaico.alerts.rule_tests import RuleReplay, try_rule
from mosaico.alerts.rules import Condition, RuleOutcome
from mosaico.alerts.service import StaleDecision, record_decisions
from mosaico.comparison import stored_run_comparison
from mosaico.run_store.evaluations import list_evaluations
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import Validity
from mosaico.run_store.run_result import RunResult
from mosaico.run_store.run_series import store_points
from mosaico.run_store.series_points import ItemIndex
from mosaico.runs import run_data
from mosaico.statistics.sequential import DEFAULT_FALSE_PAGES
from tests.integration.alerts.conftest import RULE
from tests.support.run_histories import RunHistoryMaker, history_row
from tests.support.service import Service
from tests.support.stored import DatabaseReader

THRESHOLDS = {
    Condition.LESS_THAN: 0.8,
    Condition.GREATER_THAN: 0.95,
    Condition.EQUALS: 0.5,
    Condition.NOT_EQUALS: 0.9,
    Condition.PERCENTAGE_DROP: 10,
    Condition.PERCENTAGE_RISE: 10,
}
VALUES = st.sampled_from((0.9, 0.91, 0.92, 0.5, 0.52, 0.97, None))
SEQ = st.integers(0, 60)
ACTIONS = st.one_of(
    st.tuples(st.just("night"), VALUES, SEQ),
    st.tuples(st.just("night"), VALUES, SEQ),
    st.tuples(st.sampled_from(("start", "fail", "invalid")), VALUES, SEQ),
    st.tuples(st.sampled_from(("end", "overtaken", "repeat", "rescore", "retry")), VALUES, SEQ),
    st.tuples(st.sampled_from(("rule", "edit")), st.none(), SEQ),
)
HISTORIES = st.lists(ACTIONS, min_size=15, max_size=40)
# A run that breaches, one that does not, one without a value, one that ends late, and one of the same data.
EVERY_RESULT = [
    ("night", 0.9, 0), ("start", 0.9, 0), ("night", 0.5, 0), ("night", None, 0), ("end", None, 0), ("repeat", None, 0),
]  # fmt: skip


@dataclass(slots=True)
class Nights:
    """Runs of one agent, with the data that a number stands for."""

    maker: RunHistoryMaker
    values: dict[int, float | None] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    completed: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)

    def do(self, action: str, value: float | None, number: int) -> None:
        getattr(self, f"_{action}")(value, number)

    def _night(self, value: float | None, _: int) -> None:
        self._complete(self._insert(value))

    def _start(self, value: float | None, _: int) -> None:
        self.waiting.append(self._insert(value))

    def _end(self, _: float | None, number: int) -> None:
        if self.waiting:
            self._complete(self.waiting.pop(number % len(self.waiting)))

    def _overtaken(self, value: float | None, number: int) -> None:
        """A run ends while another one is evaluated, which is then evaluated again."""
        if not self.waiting:
            self._start(value, number)
        seq = self.waiting.pop(number % len(self.waiting))
        result, decisions = self._evaluate(seq)
        self._night(value, number)
        try:
            self._store(result, decisions)
        except StaleDecision:
            self._complete(seq)

    def _invalid(self, value: float | None, _: int) -> None:
        self._complete(self._insert(value), validity=Validity.INVALID)

    def _fail(self, value: float | None, _: int) -> None:
        seq = self._insert(value)
        with self._begin() as session:
            run = self._get(session, seq)
            run.status, run.completed_at = "FAILED", self.maker.now
        self.failed.append(seq)

    def _retry(self, value: float | None, number: int) -> None:
        if self.failed:
            failed = self.failed.pop(number % len(self.failed))
            self._complete(self._insert(value, source_seq=failed))

    def _repeat(self, _: float | None, number: int) -> None:
        """Another run over the data of an earlier one, valid or not."""
        if self.completed:
            first = self.completed[number % len(self.completed)]
            self._complete(self._insert(self.values[first], like=first))

    def _rescore(self, value: float | None, number: int) -> None:
        """The traces of an earlier run again: with the same values, or with those of other metrics."""
        if not self.completed:
            return
        origin = self.completed[number % len(self.completed)]
        is_same = value is None
        again = self.values[origin] if is_same else value
        self._complete(self._insert(again, like=origin, is_rescored=True, is_same=is_same))

    def _rule(self, _: None, number: int) -> None:
        condition = list(Condition)[number % len(Condition)]
        body = {
            **RULE, "id": f"rule-{len(self.rules)}", "condition": condition,
            "threshold": THRESHOLDS.get(condition),
            "forRuns": 1 if condition is Condition.REGRESSED else 1 + number % 2,
            "keepFiringForRuns": number % 3,
        }  # fmt: skip
        self.rules.append(self.maker.service.post("/alert-configs", body)["id"])

    def _edit(self, _: None, number: int) -> None:
        if self.rules:
            rule_id = self.rules[number % len(self.rules)]
            self.maker.service.patch(f"/alert-configs/{rule_id}", {"minimumEffect": 0.01 * number})

    def _begin(self) -> Any:
        return self.maker.service.resources.db.begin()

    @staticmethod
    def _get(session: Session, seq: int) -> BenchmarkRun:
        return session.scalars(select(BenchmarkRun).where(BenchmarkRun.seq == seq)).one()

    def _insert(
        self,
        value: float | None,
        *,
        like: int | None = None,
        source_seq: int | None = None,
        is_rescored: bool = False,
        is_same: bool = True,
    ) -> int:
        self.maker.days += 1
        with self._begin() as session:
            seq = self.maker.insert_run(session, "f", self.maker.now)
            run = self._get(session, seq)
            run.source_key = f"data {seq}"
            run.source_seq = seq if source_seq is None else source_seq
            if like is not None:
                first = self._get(session, like)
                run.source_seq = first.source_seq
                run.source_key = first.source_key if is_same else run.source_key
                run.rescore_of = first.id if is_rescored else None
        self.values[seq] = value
        return seq

    def _evaluate(
        self, seq: int, validity: Validity = Validity.VALID
    ) -> tuple[RunResult, list[AlertDecision]]:
        with self.maker.service.resources.db.read() as session:
            run = self._get(session, seq)
            place, night, run_id = run_data.find_place(session, run), run.night, run.id
        result = self.maker.result(seq, self.values[seq], "f")
        result = replace(
            result, run_id=run_id, place=place, night=night,
            validity=replace(result.validity, validity=validity),
            series=result.series if place.has_new_data else {},
        )  # fmt: skip
        return result, self.maker.evaluation.evaluate_alerts_for_run(result)

    def _complete(self, seq: int, *, validity: Validity = Validity.VALID) -> None:
        self._store(*self._evaluate(seq, validity))

    def _store(self, result: RunResult, decisions: list[AlertDecision]) -> None:
        self.maker.days += 1
        now = self.maker.now
        with self._begin() as session:
            run = self._get(session, result.run_seq)
            run_data.settle_place(session, run, result.place, is_valid=result.is_valid)
            run.status, run.completed_at = "COMPLETED", now
            run.validity = result.validity.validity
            session.add(history_row(result, self.values[result.run_seq], now))
            session.flush()
            record_decisions(session, result, decisions, now)
            if result.is_valid:
                store_points(session, result.run_seq, ItemIndex(b"", b""), result.series)
        self.completed.append(result.run_seq)


def check_rule(service: Service, nights: Nights, rule_id: str) -> None:
    db = service.resources.db
    with db.read() as session:
        rule = queries.get_rule(session, rule_id)
        history = RunHistoryReader(session, "bench-001", "agent-001").read(rule)
        state = session.get(AlertState, (rule_id, "agent-001"))
        stored = {
            evaluation.run_seq: evaluation
            for seq in nights.completed
            for evaluation in list_evaluations(session, seq)
            if evaluation.rule_id == rule_id and evaluation.rule_revision == rule.revision
        }
    replayed = RuleReplay(history, DEFAULT_FALSE_PAGES).replay(db)
    by_seq = {evaluation.run.seq: evaluation for evaluation in replayed}
    for seq, live in stored.items():
        again = by_seq[seq]
        outcome = again.assessment.outcome if again.assessment else None
        assert (live.result, live.outcome) == (again.result, outcome), seq
        # A late or rescored run says what the state was when it ended, which a replay orders by nights.
        assert live.state == again.memory.state.status, seq
        assert live.value == (again.assessment.value if again.assessment else None)
    judged = [seq for seq, live in stored.items() if live.result is not RuleOutcome.LATE]
    if state is not None and judged:
        assert memory_of(state) == replayed[-1].memory
        assert state.incident_id is None or state.is_open
    tested = try_rule(rule_id, service.resources).assessments
    last = [evaluation for evaluation in replayed if evaluation.assessment]
    assert [each.outcome for each in tested] == [
        evaluation.assessment.outcome for evaluation in last[-1:] if evaluation.assessment
    ]


def run_histories(
    service: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch, examples: int
) -> None:
    monkeypatch.setattr(run_data, "digest_data", lambda _, run: run.source_key)
    monkeypatch.setattr(rule_history, "series_levels_in_child", stored_run_comparison._load_levels)
    seen: set[tuple[str, str]] = set()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(HISTORIES)
    @example(EVERY_RESULT)
    def tell(history: list[tuple[str, Any, int]]) -> None:
        rows.execute("TRUNCATE alert_rules, alert_events, incidents, benchmark_runs CASCADE")
        nights = Nights(RunHistoryMaker(service))
        # A rule of each condition, and those that are made later.
        for number in range(len(Condition)):
            nights.do("rule", None, number)
        for action, value, number in [*history, ("night", 0.5, 0)]:
            nights.do(action, value, number)
        for rule_id in nights.rules:
            check_rule(service, nights, rule_id)
        seen.update(
            rows.all(
                "SELECT rule.condition, evaluation.result FROM run_evaluations AS evaluation"
                " JOIN alert_rules AS rule ON rule.id = evaluation.rule_id"
            )
        )

    tell()
    results = {result for _, result in seen}
    assert {"FIRED", "NO_BREACH", "SAME_DATA", "LATE", "NO_VALUE"} <= results


def test_random_histories__are_judged_alike_live_in_backtests_and_in_tests(
    benchmark_service: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_histories(benchmark_service, rows, monkeypatch, 1)


def test_overtaken_run__is_late_without_any_rule_too(
    benchmark_service: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_data, "digest_data", lambda _, run: run.source_key)
    nights = Nights(RunHistoryMaker(benchmark_service))
    nights.do("overtaken", 0.9, 0)
    assert rows.all("SELECT is_late FROM benchmark_runs ORDER BY seq") == [(True,), (False,)]


@pytest.mark.prove
def test_many_random_histories__are_judged_alike_live_in_backtests_and_in_tests(
    benchmark_service: Service, rows: DatabaseReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_histories(benchmark_service, rows, monkeypatch, 1_000)
