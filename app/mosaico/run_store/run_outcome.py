"""What a run and each of its numbers came to: one answer for Morning, lists, the page of a run and trends.

A verdict belongs to one number. That of a run follows from one of its KPIs, which is named beside it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol, TypeVar

from sqlalchemy import select, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from mosaico.kpis.models import KpiHistory
from mosaico.run_store.rules import Validity
from mosaico.statistics.verdict_rules import Scale, Verdict


class _NamedKpi(Protocol):
    """A KPI, or its value in a run."""

    @property
    def name(self) -> str: ...
    @property
    def gate(self) -> bool: ...


_NamedT = TypeVar("_NamedT", bound=_NamedKpi)


class KpiOutcome(NamedTuple):
    """The value of a KPI in a run with its own verdict: INVALID when too little was measured, None when it was not
    compared.
    """

    kpi_id: str
    name: str
    gate: bool
    value: float | None
    unit: str | None
    scale: Scale | None
    verdict: Verdict | None


def verdict_of_run(validity: str | None, verdict: Verdict | None) -> Verdict | None:
    """The verdict of a run, or of a KPI; INVALID when too little was measured to compare it."""
    return Verdict.INVALID if validity == Validity.INVALID else verdict


def outcome_of_kpi(kpi: KpiHistory) -> KpiOutcome:
    """The value of a KPI with its own verdict."""
    verdict = kpi.verdict
    return KpiOutcome(
        kpi.kpi_id, kpi.name, kpi.gate, kpi.value, kpi.unit, verdict.scale if verdict else None,
        verdict_of_run(kpi.validity, verdict.verdict if verdict else None),
    )  # fmt: skip


def sort_kpis(kpis: Iterable[_NamedT]) -> list[_NamedT]:
    """The KPIs of a benchmark, those of the gate first, then by name. The first one stands for the benchmark."""
    return sorted(kpis, key=lambda kpi: (not kpi.gate, kpi.name.lower()))


def find_shown_kpi(kpis: Iterable[_NamedT]) -> _NamedT | None:
    """The KPI that stands for the benchmark; None without any."""
    return next(iter(sort_kpis(kpis)), None)


def find_deciding(kpis: Iterable[KpiOutcome], verdict: str | None) -> KpiOutcome | None:
    """The KPI from which the verdict of a run follows: of several with this verdict, the first one of `sort_kpis`. None
    where no KPI has it: the verdict is that of a metric, or of the run as a whole.
    """
    deciding = (kpi for kpi in sort_kpis(kpis) if verdict is not None and kpi.verdict == verdict)
    return next(deciding, None)


def name_elsewhere(kpis: Iterable[KpiOutcome], verdict: str | None) -> str | None:
    """The name to put beside the verdict of a run: that of the KPI from which it follows, unless it is the one that
    stands for the benchmark.
    """
    ordered = sort_kpis(kpis)
    deciding = find_deciding(ordered, verdict)
    return deciding.name if deciding is not None and deciding is not ordered[0] else None


def list_kpi_outcomes(session: Session, run_seqs: Collection[int]) -> dict[int, list[KpiOutcome]]:
    """The values of the KPIs of some runs, by the number of the run. Without the documents of their comparisons."""
    document = type_coerce(KpiHistory.verdict, JSONB)
    statement = select(
        KpiHistory.run_seq, KpiHistory.kpi_id, KpiHistory.name, KpiHistory.gate, KpiHistory.value, KpiHistory.unit,
        KpiHistory.validity, document["scale"].astext.label("scale"), document["verdict"].astext.label("word"),
    ).where(KpiHistory.run_seq.in_(run_seqs))  # fmt: skip
    outcomes: dict[int, list[KpiOutcome]] = defaultdict(list)
    for row in session.execute(statement):
        outcomes[row.run_seq].append(
            KpiOutcome(
                row.kpi_id, row.name, row.gate, row.value, row.unit, Scale(row.scale) if row.scale else None,
                verdict_of_run(row.validity, Verdict(row.word) if row.word else None),
            )
        )  # fmt: skip
    return outcomes
