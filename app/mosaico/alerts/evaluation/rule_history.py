"""The stored runs of an agent with the values that rules watch, as `judging.Judge` reads them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.orm import Session

from mosaico.alerts.evaluation.judging import SeriesInput, is_history_of
from mosaico.alerts.evaluation.rule_series import series_name, watches_levels
from mosaico.alerts.evaluation.series_decision import level_of_measurement, scale_of
from mosaico.alerts.evaluation.value_history import MeasurementHistory
from mosaico.alerts.evaluation.watched_values import Measurement, RuleTarget, observe
from mosaico.alerts.models import AlertRule
from mosaico.alerts.rules import Observation, RunSpan, ValueSpec
from mosaico.comparison.stored_run_comparison import ComparableRuns, series_levels_in_child
from mosaico.core.db import Database
from mosaico.run_store.run_history import PastRun, list_ended_runs
from mosaico.run_store.run_series import list_scales
from mosaico.statistics.sequential import MAX_REFERENCE, RunLevel
from mosaico.statistics.verdict_rules import Scale

# Of one agent: what a rule that is new, and a backtest, replay at most.
MAX_RUNS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueHistory:
    """The watched value in some runs, by sequence number; a `judging.WatchedRuns`.

    `name` stands for the value in runs that did not compute it. `levels` are, by run, those of the runs up to it on
    its items. `series` has the inputs of runs whose levels are known better than by what is stored.
    """

    name: str
    runs: Sequence[PastRun]
    measurements: Mapping[int, Measurement]
    levels: Mapping[int, Mapping[int, RunLevel]] = field(default_factory=dict)
    scales: Mapping[int, Scale] = field(default_factory=dict)
    series: Mapping[int, SeriesInput | None] = field(default_factory=dict)

    def past_of(self, run: PastRun) -> list[PastRun]:
        """The runs that are the history of a run, oldest first."""
        return [earlier for earlier in self.runs if is_history_of(earlier, run)]

    def observe(self, run: PastRun, excluded: Sequence[RunSpan]) -> tuple[ValueSpec, Observation]:
        measurement = self.measurements.get(run.seq)
        value_spec = measurement.spec if measurement else ValueSpec(name=self.name)
        past = self.past_of(run)
        observation = observe(measurement, run.fingerprint, past, self.measurements, excluded)
        levels = self._levels_outside(run, past, excluded, scale_of(value_spec))
        return value_spec, replace(observation, levels=levels)

    def _levels_outside(
        self, run: PastRun, past: Sequence[PastRun], excluded: Sequence[RunSpan], scale: Scale
    ) -> list[RunLevel]:
        """The levels of comparable runs outside incidents, that of the run last; none where it has none, or logarithms
        where the value has none.
        """
        series = self.series_of(run)
        if series is None or run.seq not in series.levels:
            return []
        if (series.scale is Scale.RATIO) is not (scale is Scale.RATIO):
            return []
        comparable = [
            earlier.seq
            for earlier in past
            if earlier.fingerprint == run.fingerprint
            and not any(span.contains(earlier.seq) for span in excluded)
        ]
        runs = [*comparable[-MAX_REFERENCE:], run.seq]
        return [series.levels[seq] for seq in runs if seq in series.levels]

    def series_of(self, run: PastRun) -> SeriesInput | None:
        if run.seq in self.series:
            return self.series[run.seq]
        measurement = self.measurements.get(run.seq)
        if measurement is None:
            return None
        scale = self.scales.get(run.seq, scale_of(measurement.spec))
        return SeriesInput(self.levels.get(run.seq, {}), scale, measurement.spec.harm)


class RunHistoryReader:
    """The last runs of one agent, and their values; each value is read once, however many rules watch it."""

    def __init__(self, session: Session, benchmark_id: str, agent_id: str) -> None:
        self._session = session
        self.agent_id = agent_id
        self.runs = list_ended_runs(session, benchmark_id, agent_id, since=None, limit=MAX_RUNS)
        self._values = MeasurementHistory(session, self.runs)

    def read(self, rule: AlertRule) -> "RuleHistory":
        return RuleHistory(
            rule=rule,
            agent_id=self.agent_id,
            runs=self.runs,
            measurements=self._values.measurements(RuleTarget.of(rule.kpi, rule.metric)),
            scales=list_scales(self._session, series_name(rule), [run.seq for run in self.runs])
            if watches_levels(rule)
            else {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleHistory:
    """The runs of one agent with the values that a rule watches, oldest first, without levels yet."""

    rule: AlertRule
    agent_id: str
    runs: Sequence[PastRun]
    measurements: Mapping[int, Measurement]
    scales: Mapping[int, Scale]

    def values(self, db: Database) -> ValueHistory:
        """The values with their levels; computes, so call it outside of any transaction.

        Raises: `ComparisonBusy`, `ComparisonFailed`.
        """
        return ValueHistory(
            name=self.rule.metric or self.rule.name,
            runs=self.runs,
            measurements=self.measurements,
            levels=self._levels(db) if watches_levels(self.rule) else {},
            scales=self.scales,
        )

    def _levels(self, db: Database) -> dict[int, Mapping[int, RunLevel]]:
        """By valid run, the levels of the runs up to it over its items, as new runs are judged."""
        by_fingerprint: dict[str | None, list[PastRun]] = defaultdict(list)
        for run in self.runs:
            # A run without new data has no level, see `runs.series`.
            if run.is_valid and run.has_new_data and run.seq in self.measurements:
                by_fingerprint[run.fingerprint].append(run)
        groups = [group for runs in by_fingerprint.values() for group in _comparable_runs(runs)]
        fitted = series_levels_in_child(db, series_name(self.rule), groups) if groups else {}
        levels: dict[int, Mapping[int, RunLevel]] = {}
        for runs in by_fingerprint.values():
            alone = self._levels_of_values(runs)
            for run in runs:
                own = fitted.get(run.seq, {})
                levels[run.seq] = {**alone, **own} if alone else own
        return levels

    def _levels_of_values(self, runs: Sequence[PastRun]) -> dict[int, RunLevel]:
        """The levels of runs whose items are not stored, by their values alone."""
        return {
            run.seq: level
            for run in runs
            if run.seq not in self.scales
            and (level := level_of_measurement(run.seq, self.measurements[run.seq])) is not None
        }


def _comparable_runs(runs: Sequence[PastRun]) -> Iterator[ComparableRuns]:
    """Runs with one fingerprint in the order of their nights, and each late run after those before its night."""
    nights = sorted((run for run in runs if not run.is_late), key=lambda run: (run.night, run.seq))
    if nights:
        yield ComparableRuns([run.seq for run in nights])
    for run in runs:
        if run.is_late:
            past = [earlier.seq for earlier in nights if is_history_of(earlier, run)]
            past = past[-MAX_REFERENCE:]
            yield ComparableRuns([*past, run.seq], first=len(past))
