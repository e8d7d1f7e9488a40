"""The next state of the series of a REGRESSED rule; pure."""

import math
from collections.abc import Mapping

from mosaico.alerts.evaluation.incident_rules import SeriesStep, advance_series
from mosaico.alerts.evaluation.series_evidence import page_policy
from mosaico.alerts.evaluation.watched_values import Measurement
from mosaico.alerts.rules import RuleSpec, ValueSpec
from mosaico.kpis.series_types import SeriesState
from mosaico.statistics.sequential import RunLevel
from mosaico.statistics.verdict_rules import Scale, Side


def decide_step(
    series: SeriesState,
    levels: Mapping[int, RunLevel],
    run_seq: int,
    scale: Scale,
    side: Side,
    spec: RuleSpec,
    false_pages: float,
) -> SeriesStep:
    """The next state of a series after a valid run with a value.

    `levels` holds those of the run and of the runs of `series`; `false_pages` is the number of false
    pages in 30 runs for a rule that sets none. The verdict of the run alone decides nothing: it does not know how
    whole runs of the series vary.
    """
    policy = page_policy(
        scale,
        side,
        levels,
        false_pages_per_month=spec.false_pages_per_month or false_pages,
        min_effect=spec.minimum_effect,
        keep_firing_for_runs=spec.keep_firing_for_runs,
    )
    return advance_series(series, levels, run_seq, policy)


def scale_of(value_spec: ValueSpec) -> Scale:
    """The scale on which a value is compared."""
    if value_spec.logarithmic:
        return Scale.RATIO
    return Scale.RATE if value_spec.is_share else Scale.NUMBER


def level_of_measurement(run_seq: int, measurement: Measurement) -> RunLevel | None:
    """The level of a run by its value alone, for runs whose items are not stored."""
    point = measurement.point
    if point is None:
        return None
    if not measurement.spec.logarithmic:
        noise = None if point.error is None else point.error**2
        return RunLevel(run_seq, point.value, noise)
    if point.value <= 0:
        return None
    noise = None if point.error is None else (point.error / point.value) ** 2
    return RunLevel(run_seq, math.log(point.value), noise)
