"""What a benchmark may say, decided without a database."""

from dataclasses import dataclass

import pytest
from pydantic import ValidationError

from mosaico.benchmarks.rules import kpi_errors, kpi_list_errors, metric_errors
from mosaico.benchmarks.schemas import BenchmarkCreate, BenchmarkPatch
from mosaico.core.errors import ErrorItem
from mosaico.core.schemas import changed_fields
from mosaico.metrics.types import MetricRef
from mosaico.plugin_loading import load_plugins

load_plugins()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    name: str = "quality"
    formula: str = "ROUGE"
    id: str | None = None
    threshold_min: float | None = None
    threshold_max: float | None = None
    corrected: bool = False


def pointers(errors: list[ErrorItem]) -> list[str]:
    return [error.pointer for error in errors]


def test_metric_errors__known_metrics_and_options_have_none() -> None:
    stemmed = MetricRef.of("ROUGE", {"useStemmer": True})
    tone, facts = (MetricRef.of("SCORE", {"name": name}) for name in ("Tone", "Facts"))
    assert metric_errors([stemmed, MetricRef.of("BLEU"), tone, facts]) == []
    assert metric_errors([]) == []


def test_metric_errors__unknown_name_or_each_unknown_option() -> None:
    unknown = MetricRef.of("ROGUE", {"useStemmer": True})
    options = MetricRef.of("ROUGE", {"useStemer": True, "useStemmer": 1})
    errors = metric_errors([unknown, options])
    assert pointers(errors) == [
        "/metrics/0",
        "/metrics/1/options/useStemer",
        "/metrics/1/options/useStemmer",
    ]
    assert "Did you mean useStemmer" in errors[1].detail


def test_metric_errors__duplicate_column_is_an_error() -> None:
    stemmed = MetricRef.of("ROUGE", {"useStemmer": True})
    # Both would be the column ROUGE: a formula could not tell them apart.
    assert pointers(metric_errors([MetricRef.of("ROUGE"), stemmed])) == ["/metrics/1"]


def test_kpi_errors__formula_span_and_threshold_order() -> None:
    errors = kpi_errors(
        Draft(formula="1 + NOPE", threshold_min=2, threshold_max=1), pointer="/kpis/3"
    )
    assert pointers(errors) == ["/kpis/3/formula", "/kpis/3/thresholdMin"]
    # NOPE in "1 + NOPE".
    assert errors[0].span == (4, 8)
    assert kpi_errors(Draft(threshold_min=1, threshold_max=1), pointer="") == []


@pytest.mark.parametrize(
    ("formula", "is_right"),
    [
        ("LLM_JUDGE", True),
        ('SCORE["tone"]', True),
        # People say nothing of a text metric; nor of a part of the answers, a percentile or a sum of two.
        ("ROUGE", False),
        ('LLM_JUDGE{lang="de"}', False),
        ("LLM_JUDGE.p95", False),
        ("AVERAGE(LLM_JUDGE, ROUGE)", False),
    ],
)
def test_kpi_errors__people_correct_the_mean_of_one_judge(formula: str, *, is_right: bool) -> None:
    errors = kpi_errors(Draft(formula=formula, corrected=True), pointer="")
    assert pointers(errors) == ([] if is_right else ["/corrected"])
    assert kpi_errors(Draft(formula=formula), pointer="") == []


def test_kpi_list_errors__duplicate_names_and_ids() -> None:
    drafts = [Draft(name="A", id="x"), Draft(name="a"), Draft(name="b", id="x"), Draft(name="c")]
    assert pointers(kpi_list_errors(drafts)) == ["/measures/1/name", "/measures/2/id"]


def test_benchmark_patch__contains_only_sent_fields() -> None:
    assert changed_fields(BenchmarkPatch.model_validate({})) == {}
    patch = BenchmarkPatch.model_validate({"runName": None, "metadata": '{"a": 1}'})
    assert changed_fields(patch) == {"run_name": None, "metadata": {"a": 1}}
    with pytest.raises(ValidationError):
        BenchmarkPatch.model_validate({"metadata": None})


def test_benchmark_body__default_metrics_are_the_six_of_original_system() -> None:
    keys = [metric.key for metric in BenchmarkCreate.model_validate({}).metrics]
    assert keys == ["ROUGE", "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE"]
