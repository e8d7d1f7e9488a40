"""Histories of runs with given values, completed as the last step of a run does."""

from datetime import UTC, datetime, timedelta

from sqlalchemy.orm import Session

from mosaico.alerts.evaluation.run_evaluation import AlertEvaluationService
from mosaico.alerts.service import record_decisions
from mosaico.kpis.evaluate import KpiValue, PlannedKpi
from mosaico.kpis.models import KpiHistory
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.run_result import RunResult
from mosaico.run_store.series_points import SeriesPoint, SeriesResult, kpi_series
from mosaico.statistics.sequential import DEFAULT_FALSE_PAGES, RunLevel
from mosaico.statistics.verdict_rules import Scale, Side
from tests.support.results import PLAN, run_result
from tests.support.service import Service

START = datetime(2026, 9, 1, 2, tzinfo=UTC)
KPI = PlannedKpi(
    id="k-1",
    revision=1,
    name="quality",
    formula="EXACT_MATCH",
    direction="HIGHER_IS_BETTER",
    unit=None,
    threshold_min=None,
    threshold_max=None,
)


class RunHistoryMaker:
    """Completes runs with given values of the KPI (None: without one), one a day, as the last step of a run does."""

    def __init__(self, service: Service, *, false_pages: float = DEFAULT_FALSE_PAGES) -> None:
        self.service = service
        self.evaluation = AlertEvaluationService(service.resources.db, false_pages)
        self.plan = PLAN.model_copy(update={"source": "local"})
        self.days = 0
        self.levels: dict[str, dict[int, RunLevel]] = {}

    def __call__(self, *values: float | None, fingerprint: str = "f") -> None:
        for value in values:
            self._complete(value, fingerprint)

    @property
    def now(self) -> datetime:
        """The time of the next run."""
        return START + timedelta(days=self.days)

    def _complete(self, value: float | None, fingerprint: str) -> None:
        db = self.service.resources.db
        now = self.now
        self.days += 1
        with db.begin() as session:
            seq = self.insert_run(session, fingerprint, now)
        result = self.result(seq, value, fingerprint)
        decisions = self.evaluation.evaluate_alerts_for_run(result)
        with db.begin() as session:
            run = session.get_one(BenchmarkRun, result.run_id)
            run.status, run.completed_at, run.has_new_data = "COMPLETED", now, True
            session.add(history_row(result, value, now))
            session.flush()
            record_decisions(session, result, decisions, now)

    def insert_run(self, session: Session, fingerprint: str, now: datetime) -> int:
        run = BenchmarkRun(
            id=f"run-{self.days}", benchmark_id="bench-001", agent_id="agent-001", status="RUNNING",
            triggered_by="MANUAL", validity="VALID", fingerprint=fingerprint, created_at=now,
            traces_total=200_000, plan=self.plan,
        )  # fmt: skip
        session.add(run)
        session.flush()
        run.source_seq = run.seq
        return run.seq

    def result(self, seq: int, value: float | None, fingerprint: str) -> RunResult:
        base = run_result(seq)
        levels = self.levels.setdefault(fingerprint, {})
        series = {}
        if value is not None:
            levels[seq] = RunLevel(seq, value)
            point = SeriesPoint(Scale.RATE, Side.LOW, value)
            series = {kpi_series("k-1"): SeriesResult(point=point, levels=dict(levels))}
        return RunResult(
            run_id=f"run-{self.days}", run_seq=seq, plan=self.plan, fingerprint=fingerprint,
            trace_count=200_000, aggregates={}, kpis=[KpiValue(kpi=KPI, value=value, reason=None)],
            validity=base.validity, verdicts=base.verdicts,
            series=series,
        )  # fmt: skip


def history_row(result: RunResult, value: float | None, now: datetime) -> KpiHistory:
    """The stored value of the KPI in a run."""
    return KpiHistory(
        run_seq=result.run_seq, run_id=result.run_id, benchmark_id="bench-001",
        agent_id="agent-001", kpi_id="k-1", kpi_revision=1, name="quality", formula="EXACT_MATCH",
        value=value, direction="HIGHER_IS_BETTER", validity="VALID", gate=False, missing={},
        recorded_at=now,
    )  # fmt: skip
