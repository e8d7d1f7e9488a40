"""The frozen plan of a run: storage, fingerprint and comparison."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mosaico.kpis.evaluate import PlannedKpi
from mosaico.metrics.types import Direction
from mosaico.run_store.plan import PlannedMetric, RunPlan
from mosaico.run_store.plan_differences import PlanDifferences, compare_plans
from mosaico.traces.files.importer_registry import IMPORTERS, load_importers
from mosaico.traces.reader_versions import (
    FILE_READERS,
    SOURCE_READERS,
    TraceReaderVersion,
    reader_of_source,
)
from mosaico.traces.registry import TRACE_SOURCES, load_trace_sources


def metric(column: str = "ROUGE", version: str = "1", **options: bool | str) -> PlannedMetric:
    return PlannedMetric(key=column, options=options, column=column, version=version)


def lower() -> PlannedMetric:
    return metric().model_copy(update={"direction": Direction.LOWER_IS_BETTER})


def of_package(package: str, direction: Direction | None = None) -> PlannedMetric:
    return metric().model_copy(update={"package": package, "direction": direction})


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
        "kpis": (kpi(), kpi("BLEU", "other", id="o")),
        "min_coverage": 0.9,
        "max_error_share": 0.05,
    }
    return RunPlan(**{**fields, **changes})


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
            {"kpis": (kpi(direction="LOWER_IS_BETTER"), kpi("BLEU", "other"))},
            {"metrics": (lower(), metric("BLEU"))},
            {"metrics": (of_package("sample 1.2"), metric("BLEU"))},
            {"metrics": (of_package("sample 1.3"), metric("BLEU"))},
            {"reader": TraceReaderVersion(name="csv", answers=2)},
            {"reader": TraceReaderVersion(name="csv", usage=2)},
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
        "ROUGE is measured differently from here on (version 2 instead of 1)",
        "its dataset is support-2 instead of support",
        "BLEU is new",
    )
    assert compare_plans([], now) == PlanDifferences(frozenset(), frozenset(), ())


def test_compare_plans__a_correction_is_named_and_no_change_of_the_ruler() -> None:
    first, *others = plan().kpis
    corrected = plan(kpis=(first.model_copy(update={"corrected": True}), *others))
    differences = compare_plans([plan()], corrected)
    assert (differences.kpis, differences.ruler) == (frozenset(), ())
    assert ["now corrected" in text for text in differences.descriptions] == [True]
    assert corrected.fingerprint() == plan().fingerprint()
    assert "no longer corrected" in compare_plans([corrected], plan()).descriptions[0]


def test_ruler__each_change_is_named() -> None:
    higher = metric("JUDGE", "1+model=a", model="a", prompt="p" * 80)
    old = higher.model_copy(update={"direction": Direction.HIGHER_IS_BETTER})
    new = metric("JUDGE", "1+model=b", model="b", prompt="q" * 80).model_copy(
        update={"direction": Direction.LOWER_IS_BETTER}
    )
    differences = compare_plans([plan(metrics=(old,), kpis=())], plan(metrics=(new,), kpis=()))
    [change] = differences.ruler
    parts = (
        "model b instead of a",
        "another prompt",
        "lower is better instead of higher is better",
    )
    assert all(part in change for part in parts)
    assert differences.measurable_again == {"JUDGE"}


def test_ruler__another_direction_leaves_the_values_comparable() -> None:
    old = metric().model_copy(update={"direction": Direction.HIGHER_IS_BETTER})
    differences = compare_plans([plan(metrics=(old,), kpis=())], plan(metrics=(lower(),), kpis=()))
    assert len(differences.ruler) == 1
    assert differences.metrics == differences.measurable_again == frozenset()


def test_ruler__another_package_is_measured_again() -> None:
    before, after = (of_package(name, Direction.NEITHER) for name in ("sample 1.2", "sample 1.3"))
    differences = compare_plans([plan(metrics=(before,))], plan(metrics=(after,)))
    assert differences.measurable_again == {"ROUGE"}
    assert "sample 1.3 instead of sample 1.2" in differences.ruler[0]


def test_ruler__what_an_older_plan_does_not_say_is_no_change() -> None:
    older, now = plan(metrics=(metric(),)), plan(metrics=(of_package("p 1", Direction.NEITHER),))
    assert compare_plans([older], now).ruler == ()
    assert older.completed_by(now).fingerprint() == now.fingerprint()
    # A version that differs is one.
    other = plan(metrics=(metric(version="2"),))
    assert other.completed_by(now).fingerprint() != now.fingerprint()


def test_reader__of_the_first_version_is_as_none() -> None:
    read = plan(reader=TraceReaderVersion(name="csv"))
    assert read.fingerprint() == plan().fingerprint()
    assert compare_plans([plan()], read).ruler == ()


def test_reader__every_importer_and_source_has_a_version() -> None:
    load_importers(lambda _: None)
    load_trace_sources(lambda _: None)
    assert {plugin.name for plugin in IMPORTERS.loaded} <= FILE_READERS.keys()
    # Uploads have the reader of their file.
    assert {plugin.name for plugin in TRACE_SOURCES.loaded} - {"local"} <= SOURCE_READERS.keys()


def test_reader__of_a_source_has_not_the_version_of_an_importer_of_the_same_name() -> None:
    assert FILE_READERS["phoenix"].answers > 1
    assert reader_of_source("phoenix").answers == 1
