from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy.orm import Session

from app.kpis.evaluate import KpiValue, Standing
from app.kpis.models import KpiHistory


class RunKey(NamedTuple):
    """The run that KPI values belong to."""

    seq: int
    id: str
    benchmark_id: str
    agent_id: str


def record_kpis(
    session: Session,
    run: RunKey,
    values: Iterable[KpiValue],
    standings: Mapping[str, Standing],
    validity: str,
    now: datetime,
) -> None:
    """Append the KPI values of a run to the history; `standings` are by the id of the KPI."""
    session.add_all(
        KpiHistory(
            run_seq=run.seq,
            run_id=run.id,
            benchmark_id=run.benchmark_id,
            agent_id=run.agent_id,
            kpi_id=value.kpi.id,
            kpi_revision=value.kpi.revision,
            name=value.kpi.name,
            formula=value.kpi.formula,
            value=value.value,
            undefined_reason=value.reason,
            unit=value.kpi.unit,
            direction=value.kpi.direction,
            within_thresholds=value.within_thresholds,
            validity=validity,
            gate=value.kpi.gate,
            coverage=standing.coverage,
            missing=dict(standing.missing),
            interval_low=standing.low,
            interval_high=standing.high,
            verdict=standing.verdict,
            recorded_at=now,
        )
        for value in values
        for standing in [standings.get(value.kpi.id, Standing())]
    )
    session.flush()
