from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy.orm import Session

from app.kpis.evaluate import KpiValue
from app.kpis.models import KpiHistory


class RunKey(NamedTuple):
    """The run that KPI values belong to."""

    seq: int
    id: str
    benchmark_id: str
    agent_id: str


def record_kpis(
    session: Session, run: RunKey, values: Iterable[KpiValue], validity: str, now: datetime
) -> None:
    """Append the KPI values of a run to the history."""
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
            recorded_at=now,
        )
        for value in values
    )
    session.flush()
