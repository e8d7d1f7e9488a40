"""What a run will do, frozen: it survives its storage, and its fingerprint tells its meaning."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.kpis.evaluate import PlannedKpi
from app.results.plan import PlanDifferences, PlannedMetric, RunPlan, compare_plans


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
        "run_name": "night-1",
        "metrics": (metric(), metric("BLEU")),
        "kpis": (kpi(), kpi("BLEU", "other")),
        "min_coverage": 0.9,
        "max_error_share": 0.05,
    }
    return RunPlan(**{**fields, **changes})


def test_a_plan_survives_its_storage() -> None:
    planned = plan(
        metrics=(metric("ROUGE", "1+useStemmer", useStemmer=True), metric("SCORE", name="é"))
    )
    assert RunPlan.model_validate(planned.document()) == planned
    assert planned.columns == ["ROUGE", "SCORE"]
    assert planned.refs[0].options == (("useStemmer", True),)


def test_runs_whose_numbers_mean_the_same_have_one_fingerprint() -> None:
    same = plan().fingerprint()
    assert plan(run_name="night-2", benchmark_revision=7).fingerprint() == same
    assert plan(metrics=(metric("BLEU"), metric())).fingerprint() == same
    assert plan(kpis=(kpi("BLEU", "other"), kpi())).fingerprint() == same
    assert plan(kpis=(kpi(" ( rouge.MEAN ) "), kpi("BLEU", "other"))).fingerprint() == same
    assert plan(kpis=(kpi(revision=4, unit="%"), kpi("BLEU", "other"))).fingerprint() == same


def test_a_change_of_meaning_changes_the_fingerprint() -> None:
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
def test_the_order_of_metrics_does_not_matter(metrics: list[PlannedMetric]) -> None:
    ordered = tuple(sorted(metrics, key=lambda each: each.column))
    shuffled = plan(metrics=tuple(metrics), kpis=())
    assert shuffled.fingerprint() == plan(metrics=ordered, kpis=()).fingerprint()


def test_what_differs_from_any_of_several_runs_is_told_once() -> None:
    now = plan(dataset_ref="support-2", metrics=(metric(version="2"), metric("BLEU")), kpis=())
    earlier = plan(kpis=())
    found = compare_plans([earlier, earlier, plan(metrics=(metric(version="2"),), kpis=())], now)
    assert found.metrics == {"ROUGE", "BLEU"}
    assert found.conditions == ("its dataset is support-2 instead of support",)
    assert found.descriptions == (
        "ROUGE has another version",
        "its dataset is support-2 instead of support",
        "BLEU is new",
    )
    assert compare_plans([], now) == PlanDifferences(frozenset(), frozenset(), ())
