"""What rules are judged by: the values of runs, as they are stored.

Runs stand above alerts, so their tables are read here by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.alerts.rules import Observation, Subject
from app.core.errors import AppError
from app.formula import Reference, compile_formula, read_reference
from app.kpis.evaluate import KpiValue
from app.kpis.verdicts import ValueVerdict
from app.metrics.aggregate import Aggregate
from app.metrics.registry import column_of, provider_for, ref_of_column
from app.metrics.run_value import is_run_metric
from app.metrics.types import Direction, MetricSpec
from app.statistics.anomaly import WINDOW, ItemSum, RunPoint, Side

# More traces than these are many enough that chance within a run does not matter.
MOST_TRACES = 100_000
RATIO_UNITS = frozenset({"ms", "s", "USD", "tokens"})
HARM = {
    Direction.HIGHER_IS_BETTER: Side.LOW,
    Direction.LOWER_IS_BETTER: Side.HIGH,
    Direction.NEITHER: Side.BOTH,
}

PAST_RUNS = text(
    """
    SELECT seq, id, status, validity, fingerprint, completed_at, traces_total
    FROM benchmark_runs
    WHERE benchmark_id = :benchmark AND agent_id = :agent AND seq < :before
      AND (:everything OR validity = 'VALID' AND fingerprint IS NOT DISTINCT FROM :fingerprint)
      AND status IN ('COMPLETED', 'FAILED') AND (cast(:since AS timestamptz) IS NULL OR completed_at >= :since)
    ORDER BY seq DESC LIMIT :most
    """
)
KPI_VALUES = text(
    """
    SELECT run_seq, kpi_id, name, value, undefined_reason, formula, direction, unit, verdict
    FROM kpi_history WHERE run_seq = ANY(:runs) AND kpi_id = :kpi
    """
)
METRIC_VALUES = text(
    "SELECT * FROM run_metrics WHERE run_seq = ANY(:runs) AND metric = ANY(:names)"
)
ITEM_SUMS = text(
    """
    SELECT run.seq, trace.item_id, count(value), sum(value), sum(value * value)
    FROM benchmark_runs AS run
    JOIN trace_results AS result ON result.run_seq = run.seq
    JOIN collected_traces AS trace
      ON trace.collection_id = run.collection_id AND trace.position = result.position
    CROSS JOIN LATERAL (SELECT result.values[array_position(run.metric_keys, :metric)]) AS v (value)
    WHERE run.seq = ANY(:runs) AND value IS NOT NULL
    GROUP BY run.seq, trace.item_id
    """
)
# Runs from an alert that was acknowledged as true up to where it was resolved.
CONFIRMED = text(
    """
    SELECT fired.config_id, fired.run_seq, resolved.run_seq
    FROM alert_events AS fired
    LEFT JOIN alert_events AS resolved
      ON resolved.episode = fired.id AND resolved.state = 'RESOLVED'
    WHERE fired.config_id = ANY(:configs) AND fired.agent_id = :agent AND fired.state = 'FIRING'
      AND fired.verdict = 'true'
    """
)


class PastRun(NamedTuple):
    """A run that has ended."""

    seq: int
    id: str
    status: str
    validity: str | None
    fingerprint: str | None
    completed_at: datetime
    traces: int | None

    @property
    def is_valid(self) -> bool:
        return self.status == "COMPLETED" and self.validity == "VALID"


class Stretch(NamedTuple):
    """Runs from one to another, the second not included; None: up to now."""

    first: int
    until: int | None

    def holds(self, seq: int) -> bool:
        return self.first <= seq and (self.until is None or seq < self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one run says about a subject; `resolution` is what one changed trace moves it, `verdict`
    how it stands beside its baseline.
    """

    subject: Subject
    point: RunPoint | None
    reason: str | None = None
    resolution: float = 0.0
    verdict: ValueVerdict | None = None


class Source(NamedTuple):
    """Where the values of a rule come from: a KPI by its id, or a statistic of a metric."""

    kpi: str | None
    metric: Reference | None

    @classmethod
    def of(cls, kpi: str | None, metric: str | None) -> "Source":
        return cls(kpi, read_reference(metric) if metric else None)


def past_runs(
    session: Session,
    benchmark_id: str,
    agent_id: str,
    *,
    before: int,
    fingerprint: str | None = None,
    everything: bool = False,
    since: datetime | None = None,
    most: int = WINDOW,
) -> list[PastRun]:
    """The last runs before one, oldest first: valid ones whose numbers mean the same, or all."""
    rows = session.execute(
        PAST_RUNS,
        {
            "benchmark": benchmark_id,
            "agent": agent_id,
            "before": before,
            "fingerprint": fingerprint,
            "everything": everything,
            "since": since,
            "most": most,
        },
    )
    return [PastRun(*row) for row in rows][::-1]


def confirmed_stretches(
    session: Session, config_ids: Sequence[str], agent_id: str
) -> dict[str, list[Stretch]]:
    """Where alerts were acknowledged as true, by rule: not what it should take for normal."""
    found: dict[str, list[Stretch]] = {config_id: [] for config_id in config_ids}
    rows = session.execute(CONFIRMED, {"configs": list(config_ids), "agent": agent_id})
    for config_id, first, until in rows:
        found[config_id].append(Stretch(first, until))
    return found


class StoredValues:
    """The values of some runs, each read once however many rules ask for them."""

    def __init__(self, session: Session, runs: Sequence[PastRun]) -> None:
        self._session = session
        self._seqs = [run.seq for run in runs if run.is_valid]
        self._traces = sum(run.traces or 0 for run in runs)
        self._readings: dict[tuple[Source, bool], dict[int, Reading]] = {}
        self._aggregates: dict[str, dict[int, Aggregate]] = {}
        self._verdicts: dict[tuple[str, int], ValueVerdict | None] = {}
        self._items: dict[str, dict[int, dict[str, ItemSum]]] = {}

    def readings(self, source: Source, *, with_items: bool) -> dict[int, Reading]:
        """What each run says, by its seq; with the values of its tasks where they are known."""
        key = (source, with_items)
        if key not in self._readings:
            found = self._of_kpi(source.kpi) if source.kpi else self._of_metric(source.metric)
            self._readings[key] = self._with_items(source, found) if with_items else found
        return self._readings[key]

    def _of_kpi(self, kpi: str) -> dict[int, Reading]:
        rows = self._session.execute(KPI_VALUES, {"runs": self._seqs, "kpi": kpi}).all()
        for row in rows:
            self._load({column_of(ref.key) for ref in compile_formula(row.formula).references})
        return {
            row.run_seq: replace(
                kpi_reading(
                    row.name, row.direction, row.formula, row.value, row.undefined_reason,
                    self._of_run(row.run_seq),
                ),
                verdict=_verdict(row.verdict),
            )
            for row in rows
        }  # fmt: skip

    def _of_metric(self, reference: Reference | None) -> dict[int, Reading]:
        if reference is None:
            return {}
        column = column_of(reference.key)
        self._load({column})
        return {
            seq: replace(
                metric_reading(reference, found), verdict=self._verdicts.get((column, seq))
            )
            for seq, found in self._aggregates[column].items()
        }

    def _load(self, columns: set[str]) -> None:
        missing = sorted(columns - self._aggregates.keys())
        if not missing:
            return
        self._aggregates |= {column: {} for column in missing}
        rows = self._session.execute(METRIC_VALUES, {"runs": self._seqs, "names": missing})
        for row in rows.mappings():
            self._aggregates[row["metric"]][row["run_seq"]] = _aggregate(dict(row))
            self._verdicts[row["metric"], row["run_seq"]] = _verdict(row["verdict"])

    def _of_run(self, seq: int) -> dict[str, Aggregate]:
        return {name: found[seq] for name, found in self._aggregates.items() if seq in found}

    def _with_items(self, source: Source, found: dict[int, Reading]) -> dict[int, Reading]:
        column = self._plain_column(source)
        if column is None or self._traces > MOST_TRACES:
            return found
        items = self._sums(column)
        return {
            seq: replace(reading, point=replace(reading.point, items=items.get(seq)))
            if reading.point
            else reading
            for seq, reading in found.items()
        }

    def _plain_column(self, source: Source) -> str | None:
        """The metric of which the value is the mean over the traces; None when it is not."""
        reference = source.metric
        if source.kpi is not None:
            formula = self._session.scalar(
                text("SELECT formula FROM kpi_definitions WHERE id = :kpi AND retired_at IS NULL"),
                {"kpi": source.kpi},
            )
            reference = read_reference(formula) if formula else None
        if reference is None or reference.stat != "mean":
            return None
        column = column_of(reference.key)
        return None if _has_run_value(column) else column

    def _sums(self, column: str) -> dict[int, dict[str, ItemSum]]:
        if column not in self._items:
            self._items[column] = {}
            rows = self._session.execute(ITEM_SUMS, {"runs": self._seqs, "metric": column})
            for seq, item, n, total, squares in rows:
                self._items[column].setdefault(seq, {})[item] = ItemSum(n, total, squares)
        return self._items[column]


def _verdict(document: Any) -> ValueVerdict | None:
    return None if document is None else ValueVerdict.model_validate(document)


def observe(
    reading: Reading | None,
    fingerprint: str | None,
    past: Sequence[PastRun],
    readings: Mapping[int, Reading],
    confirmed: Sequence[Stretch] = (),
) -> Observation:
    """A run beside the comparable ones before it: valid, of the same fingerprint, with a value."""
    history = [
        found.point
        for earlier in past
        if earlier.is_valid
        and earlier.fingerprint == fingerprint
        and not any(stretch.holds(earlier.seq) for stretch in confirmed)
        and (found := readings.get(earlier.seq)) is not None
        and found.point is not None
    ]
    if reading is None:
        return Observation(value=None, reason="the run did not compute it")
    return Observation(
        value=reading.point.value if reading.point else None,
        reason=reading.reason,
        history=history[-WINDOW:],
        resolution=reading.resolution,
        verdict=reading.verdict,
    )


def reading_of(
    source: Source, kpis: Sequence[KpiValue], aggregates: Mapping[str, Aggregate]
) -> Reading | None:
    """What a run says that is about to be stored."""
    if source.metric is not None:
        found = aggregates.get(column_of(source.metric.key))
        return metric_reading(source.metric, found) if found else None
    value = next((each for each in kpis if each.kpi.id == source.kpi), None)
    if value is None:
        return None
    kpi = value.kpi
    return kpi_reading(kpi.name, kpi.direction, kpi.formula, value.value, value.reason, aggregates)


def metric_reading(reference: Reference, found: Aggregate) -> Reading:
    spec = _spec(column_of(reference.key))
    value = found.statistic(reference.stat)
    subject = _subject(str(reference), spec, reference.stat)
    if value is None:
        return Reading(subject=subject, point=None, reason="no trace has a value")
    error = _standard_error(found) if reference.stat == "mean" else None
    resolution = 1 / found.n if subject.is_share and found.n and reference.stat == "mean" else 0.0
    return Reading(subject=subject, point=RunPoint(value=value, error=error), resolution=resolution)


def kpi_reading(
    name: str,
    direction: str,
    formula: str,
    value: float | None,
    reason: str | None,
    aggregates: Mapping[str, Aggregate],
) -> Reading:
    subject = Subject(name=name, harm=HARM[Direction(direction)])
    plain = read_reference(formula)
    if plain is not None and (found := aggregates.get(column_of(plain.key))) is not None:
        reading = metric_reading(plain, found)
        subject = replace(reading.subject, name=name, harm=subject.harm)
        return replace(reading, subject=subject, reason=reason)
    if value is None:
        return Reading(subject=subject, point=None, reason=reason)
    error = _error_of_formula(formula, aggregates)
    return Reading(subject=subject, point=RunPoint(value=value, error=error))


def _error_of_formula(formula: str, aggregates: Mapping[str, Aggregate]) -> float | None:
    """How far a KPI moves when each mean in it moves by its standard error, added up: as if all
    moved together, which metrics of the same traces do. None when that is not known.
    """
    compiled = compile_formula(formula)
    values: dict[Reference, float | None] = {}
    errors: dict[Reference, float] = {}
    for reference in compiled.references:
        found = aggregates.get(column_of(reference.key))
        error = _standard_error(found) if found and reference.stat == "mean" else None
        if found is None or error is None:
            return None
        values[reference], errors[reference] = found.mean, error
    total = 0.0
    for reference, error in errors.items():
        ends = []
        for sign in (-1, 1):
            mean = values[reference]
            assert mean is not None, "a standard error has a mean"
            ends.append(compiled.evaluate({**values, reference: mean + sign * error}).value)
        if ends[0] is None or ends[1] is None:
            return None
        total += abs(ends[1] - ends[0]) / 2
    return total


def _standard_error(found: Aggregate) -> float | None:
    if found.mean is None or found.std is None or not found.n:
        return None
    return float(found.std / found.n**0.5)


def _subject(name: str, spec: MetricSpec | None, stat: str) -> Subject:
    if stat == "coverage":
        return Subject(name=name, harm=Side.LOW, is_share=True)
    if spec is None or stat in ("n", "count", "std"):
        return Subject(name=name, harm=Side.BOTH)
    return Subject(
        name=name,
        harm=HARM[spec.direction],
        is_share=(spec.minimum, spec.maximum) == (0.0, 1.0) and stat != "sum",
        logarithmic=spec.unit in RATIO_UNITS,
    )


def _spec(column: str) -> MetricSpec | None:
    """None for a metric that is not there any more."""
    try:
        return provider_for(ref_of_column(column)).spec
    except AppError:
        return None


def _has_run_value(column: str) -> bool:
    return _spec(column) is None or is_run_metric(ref_of_column(column))


def _aggregate(row: Mapping[str, Any]) -> Aggregate:
    return Aggregate(
        **{name: row[name] for name in ("mean", "n", "std", "min", "max", "p50", "p95", "p99")},
        sum=row["sum"],
        count=row["n"],
        coverage=row["coverage"],
        missing=row["missing"],
    )
