"""What a chart of a KPI says beside its points."""

from mosaico.kpis.judge_types import KpiCorrection
from mosaico.kpis.models import KpiHistory
from mosaico.run_store.kpi_trend import KpiPoint, trend_events

CORRECTED = KpiCorrection(raw_value=0.8, answers=60, items=60, explanation="corrected")
TOO_FEW = CORRECTED.model_copy(update={"reason": "fewer than 10 annotated items"})


def point(correction: KpiCorrection | None) -> KpiPoint:
    history = KpiHistory(value=0.7, validity="VALID", correction=correction)
    return KpiPoint(history, None, None, ())


def test_trend_events__mark_the_run_from_which_the_value_is_corrected() -> None:
    corrections = [None, TOO_FEW, CORRECTED, CORRECTED, TOO_FEW]
    events = trend_events([point(correction) for correction in corrections])
    assert [(event.position, event.text) for event in events] == [
        (2, "corrected from here"),
        (4, "not corrected from here"),
    ]


def test_trend_events__of_values_that_are_all_corrected_are_none() -> None:
    assert trend_events([point(CORRECTED), point(CORRECTED)]) == []
