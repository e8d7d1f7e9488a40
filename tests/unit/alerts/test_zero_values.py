"""Values of 0 on the scale of ratios: they have a level, and every state is left."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.alerts.evaluation.conditions import assess_evidence
from mosaico.alerts.evaluation.incident_rules import SeriesStep
from mosaico.alerts.evaluation.series_decision import decide_step
from mosaico.alerts.rules import AlertOutcome, Assessment, Condition, RuleSpec, ValueSpec
from mosaico.comparison.series_levels import ZERO, levels_of_points
from mosaico.kpis.series_types import SeriesEvent, SeriesState, SeriesStatus
from mosaico.run_store.series_points import ItemIndex, StoredPoint
from mosaico.statistics.verdict_rules import Scale, Side

RULE = RuleSpec(condition=Condition.REGRESSED, keep_firing_for_runs=0)
COST = ValueSpec(name="cost", harm=Side.HIGH, logarithmic=True, unit="USD")
NO_ITEMS = ItemIndex(b"", b"")
KEYS = np.arange(8, dtype="<i8").tobytes()
TRACES = np.full(8, 3, "<i4").tobytes()


def point_of(run: int, value: float, *, with_items: bool = False) -> StoredPoint:
    level = math.log(value) if value else ZERO
    if not with_items:
        return StoredPoint(run, Scale.RATIO, level, None, NO_ITEMS)
    shares = np.linspace(-0.5, 0.5, 8) if value else np.zeros(8)
    values = (shares + level if value else shares).astype("<f4").tobytes()
    return StoredPoint(run, Scale.RATIO, level, values, ItemIndex(KEYS, TRACES))


class CostSeries:
    """A series of costs, advanced run by run; deleted runs have no point any more."""

    def __init__(self, *, with_items: bool = False) -> None:
        self.state = SeriesState()
        self.points: list[StoredPoint] = []
        self.run = 0
        self.with_items = with_items
        self.steps: list[SeriesStep] = []

    def add(self, *values: float) -> SeriesStep:
        for value in values:
            self.run += 1
            self.points.append(point_of(self.run, value, with_items=self.with_items))
            levels = levels_of_points(self.points)
            step = decide_step(self.state, levels, self.run, Scale.RATIO, Side.HIGH, RULE, 0.25)
            self.state = step.state
            self.steps.append(step)
        return self.steps[-1]

    def delete_all(self) -> None:
        self.points.clear()

    def explanation(self, value: float) -> Assessment:
        alone = Assessment(outcome=AlertOutcome.WARMUP, value=value, explanation="")
        return assess_evidence(COST, alone, self.steps[-1].evidence)


@pytest.mark.parametrize("with_items", [True, False])
def test_zero__after_a_rise_is_evidence_of_recovery(with_items: bool) -> None:
    series = CostSeries(with_items=with_items)
    series.add(1.0, 1.02, 0.99, 1.01, 1.0, 1.01)
    assert series.add(2.0, 2.1).evidence.status is SeriesStatus.FIRING
    series.add(*[0.0] * 5)
    assert SeriesEvent.RESOLVED in [step.evidence.event for step in series.steps[-5:]]
    assert series.state.incident is None


@pytest.mark.parametrize("with_items", [True, False])
def test_zero__a_rise_from_zeros_pages_and_zeros_end_it(with_items: bool) -> None:
    series = CostSeries(with_items=with_items)
    assert series.add(*[0.0] * 6).evidence.status is SeriesStatus.OK
    assert series.add(0.02).evidence.event is SeriesEvent.OPENED
    assessment = series.explanation(0.02)
    assert assessment.baseline == 0.0
    assert "The last run is above the 6 runs before (0 USD to 0.02 USD)." in assessment.explanation
    assert series.add(*[0.0] * 5).evidence.status is SeriesStatus.OK
    assert series.state.incident is None


def test_zero__a_fall_to_zero_is_no_harm() -> None:
    series = CostSeries()
    series.add(1.0, 1.02, 0.99, 1.01, 1.0, 1.01, 0.0, 0.0, 0.0)
    assert SeriesStatus.FIRING not in {step.evidence.status for step in series.steps}


COSTS = st.lists(st.sampled_from((1.0, 1.02, 0.98, 3.0, 0.0, None)), max_size=30)


@given(COSTS, st.booleans())
def test_every_state_is_left__with_zeros_and_deleted_runs(
    values: list[float | None], with_items: bool
) -> None:
    """After any history, runs of the best value end in OK and then a rise opens an incident. None: all
    runs so far are deleted.
    """
    series = CostSeries(with_items=with_items)
    for value in values:
        if value is None:
            series.delete_all()
        else:
            series.add(value)
    series.add(*[0.0] * 30)
    assert series.state.incident is None
    assert series.steps[-1].evidence.status is SeriesStatus.OK
    series.add(*[30.0] * 8)
    assert series.state.incident is not None
