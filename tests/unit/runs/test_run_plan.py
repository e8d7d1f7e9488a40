"""The frozen plan of a run: storage, fingerprint and comparison."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mosaico.kpis.evaluate import PlannedKpi
from mosaico.run_store.plan import PlanDifferences, PlannedMetric, RunPlan, compare_plans


def metric(column: str = "ROUGE", version: str = "1", **options: bool | str) -> PlannedMetric:
    return PlannedMetric(key=column, options=options, column=column, version=version)


def kpi(formula: str = "ROUGE", name: str = "quality", **more: Any) -> PlannedKpi:
    fields: dict[str, Any] = {
        "id": "k",
        "revision": 1,
        "direction": "NEITHER",
        "unit": None,
        "threshold_min": None,
        "threshold_max": None,
        **more,
    }
    return PlannedKpi(name=name, formula=formula, **fields)


def plan(**changes: Any) -> RunPlan:
    fields: dict[str, Any] = {
        "benchmark_id": "b",
        "benchmark_revision": 1,
        "agent_id": "a",
        "agent_revision": 1,
        "source": "local",
        "dataset_ref": "support",
        "run_name": "run-1",
        "metrics": (metric(), metric("BLEU")),
        "kpis": (kpi(), kpi("BLEU", "other")),
        "min_coverage": 0.9,
        "max_error_share": 0.05,
    }
    return RunPlan(**{**fields, **changes})


def test_run_plan__reads_back_as_it_was_stored() -> None:
    planned = plan(
        metrics=(metric("ROUGE", "1+useStemmer", useStemmer=True), metric("SCORE", name="é"))
    )
    assert RunPlan.model_validate(planned.model_dump(mode="json")) == planned
    assert planned.columns == ["ROUGE", "SCORE"]
    assert planned.refs[0].options == (("useStemmer", True),)


def test_fingerprint__is_equal_for_comparable_plans() -> None:
    same = plan().fingerprint()
    assert plan(run_name="run-2", benchmark_revision=7).fingerprint() == same
    assert plan(metrics=(metric("BLEU"), metric())).fingerprint() == same
    assert plan(kpis=(kpi("BLEU", "other"), kpi())).fingerprint() == same
    # The canonical text of the formula counts, not its spelling.
    assert plan(kpis=(kpi(" ( rouge.MEAN ) "), kpi("BLEU", "other"))).fingerprint() == same
    assert plan(kpis=(kpi(revision=4, unit="%"), kpi("BLEU", "other"))).fingerprint() == same


def test_fingerprint__changes_with_anything_that_changes_values() -> None:
    prints = [
        plan(**changes).fingerprint()
        for changes in (
            {},
            {"dataset_ref": "other"},
            {"source": "elsewhere"},
            {"metrics": (metric(),)},
            {"metrics": (metric(version="2"), metric("BLEU"))},
            {"metrics": (metric(version="1+useStemmer"), metric("BLEU"))},
            {"kpis": (kpi(),)},
            {"kpis": (kpi("ROUGE.p95"), kpi("BLEU", "other"))},
            {"kpis": (kpi(name="renamed"), kpi("BLEU", "other"))},
        )
    ]
    assert len(set(prints)) == len(prints)


@given(st.permutations([metric(name) for name in ("ROUGE", "BLEU", "ACCURACY", "RECALL")]))
def test_fingerprint__ignores_the_order_of_metrics(metrics: list[PlannedMetric]) -> None:
    ordered = tuple(sorted(metrics, key=lambda planned_metric: planned_metric.column))
    shuffled = plan(metrics=tuple(metrics), kpis=())
    assert shuffled.fingerprint() == plan(metrics=ordered, kpis=()).fingerprint()


def test_compare_plans__each_difference_is_described_once() -> None:
    now = plan(dataset_ref="support-2", metrics=(metric(version="2"), metric("BLEU")), kpis=())
    earlier = plan(kpis=())
    differences = compare_plans(
        [earlier, earlier, plan(metrics=(metric(version="2"),), kpis=())], now
    )
    assert differences.metrics == {"ROUGE", "BLEU"}
    assert differences.conditions == ("its dataset is support-2 instead of support",)
    assert differences.descriptions == (
        "ROUGE has another version",
        "its dataset is support-2 instead of support",
        "BLEU is new",
    )
    assert compare_plans([], now) == PlanDifferences(frozenset(), frozenset(), ())
