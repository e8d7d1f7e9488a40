"""The Python interface of the handover: parser, module functions and strategies."""

import doctest

import pytest

from mosaico.formula import (
    AverageFormula,
    DslParseException,
    KpiFormulaParser,
    ThresholdFormula,
    UndefinedFormula,
    WeightedSumFormula,
    known_metric_keys,
    parse,
    python_api,
    register_metric_keys,
    validate,
)
from mosaico.formula.python_api import MetricName, metric_key
from mosaico.metrics import registry

METRICS = {"ACCURACY": 0.9, "PRECISION": 0.8, "RECALL": 0.7}


def test_handover_formula__snippet_runs() -> None:
    parser = KpiFormulaParser(METRICS)
    result = parser.parse("WEIGHTED_SUM(ACCURACY:0.4, PRECISION:0.3, RECALL:0.3)")
    if not result.success or result.formula is None:
        raise DslParseException(result.errors_as_string())
    # 0.9*0.4 + 0.8*0.3 + 0.7*0.3 = 0.36 + 0.24 + 0.21
    assert result.formula.evaluate(METRICS) == pytest.approx(0.81)
    assert result.referenced_metrics == {"ACCURACY", "PRECISION", "RECALL"}
    assert result.errors == ()
    assert result.errors_as_string() == ""


def test_handover_formula__example_of_the_module_runs() -> None:
    examples = doctest.testmod(python_api)
    assert (examples.failed, examples.attempted) == (0, 5)


def test_kpi_formula_parser__failed_parse_lists_every_error() -> None:
    result = KpiFormulaParser(METRICS).parse("AVERGE(ACURACY)")
    assert not result.success
    assert result.formula is None
    assert result.errors_as_string().splitlines() == [str(error) for error in result.errors]
    assert "Did you mean AVERAGE?" in result.errors_as_string()
    assert "Did you mean ACCURACY?" in result.errors_as_string()
    assert DslParseException(result.errors_as_string()).exit_code == 65


def test_validate__checks_without_compiling() -> None:
    result = validate('rouge + SCORE["x"].p95')
    assert result.success
    assert result.formula is None
    assert result.referenced_metrics == {"ROUGE", 'SCORE["x"]'}


def test_kpi_formula_parser__only_a_filled_vocabulary_restricts_metrics() -> None:
    parser = KpiFormulaParser()
    assert parser.parse("WHATEVER").success
    parser.register_metric_keys(["rouge"])
    parser.register_metric_keys("BLEU")
    assert parser.known_metric_keys() == {"ROUGE", "BLEU"}
    assert not parser.parse("WHATEVER").success
    assert parser.parse("Rouge + bleu").success


def test_formula_module__functions_share_one_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mosaico.formula.python_api._default_parser", KpiFormulaParser())
    assert known_metric_keys() == frozenset()
    register_metric_keys({"ROUGE"})
    assert known_metric_keys() == {"ROUGE"}
    assert parse("ROUGE").success
    assert not parse("BLEU").success


def test_register_metric__plain_name_may_have_a_statistic_in_any_case() -> None:
    formula = parse('ROUGE.p95 + rouge + SCORE["x"]').formula
    assert formula is not None
    # 0.5 + 0.25 + 1
    assert (
        formula.evaluate({"rouge.P95": 0.5, "Rouge": 0.25, 'SCORE["x"]': 1, "a-b": 9, "%": 9})
        == 1.75
    )


def test_kpi_formula_parser__undefined_formula_raises_its_reason() -> None:
    formula = parse("ROUGE / BLEU").formula
    assert formula is not None
    with pytest.raises(UndefinedFormula, match="ROUGE / BLEU is undefined: BLEU has no value"):
        formula.evaluate({"ROUGE": 0.5})
    with pytest.raises(UndefinedFormula, match="division by zero"):
        formula.evaluate({"ROUGE": 0.5, "BLEU": 0})


def test_average_strategy__is_the_mean_of_all_values() -> None:
    # (0.9 + 0.8 + 0.7) / 3 = 2.4 / 3
    assert AverageFormula().evaluate(METRICS) == pytest.approx(0.8)


def test_average_strategy__missing_value_is_undefined() -> None:
    with pytest.raises(UndefinedFormula, match="pass at least one value"):
        AverageFormula().evaluate({})
    with pytest.raises(UndefinedFormula, match="RECALL has no finite value"):
        AverageFormula().evaluate({"ACCURACY": 1.0, "RECALL": None})


def test_weighted_sum_strategy__adds_weighted_values() -> None:
    formula = WeightedSumFormula({"ACCURACY": 0.5, "recall": -1})
    # 0.9*0.5 - 0.7
    assert formula.evaluate(METRICS) == pytest.approx(-0.25)
    assert formula.text == "WEIGHTED_SUM(ACCURACY:0.5, recall:-1)"
    with pytest.raises(UndefinedFormula, match="RECALL has no value"):
        formula.evaluate({"ACCURACY": 1.0})


@pytest.mark.parametrize(
    ("accuracy", "at_least", "at_most"), [(0.9, 1.0, 0.0), (0.8, 1.0, 1.0), (0.7, 0.0, 1.0)]
)
def test_threshold_strategy__includes_its_limit_in_both_directions(
    accuracy: float, at_least: float, at_most: float
) -> None:
    values = {"ACCURACY": accuracy}
    assert ThresholdFormula("ACCURACY", 0.8).evaluate(values) == at_least
    assert ThresholdFormula("ACCURACY", 0.8, greater_than=False).evaluate(values) == at_most


class Accuracy:
    """A class of a metric, as the original names its metrics."""


class F1ScoreMetric:
    """The same with the ending of its kind."""


class Precise:
    key = "PRECISION"


# The classes of the original, and the texts that its formulas have for them.
CLASSES = {
    "AccuracyMetricKey": "ACCURACY",
    "PrecisionMetricKey": "PRECISION",
    "RecallMetricKey": "RECALL",
    "F1ScoreMetricKey": "F1_SCORE",
    "BleuMetricKey": "BLEU",
    "RougeMetricKey": "ROUGE",
    "Rouge1MetricKey": "ROUGE_1",
    "RougeLMetricKey": "ROUGE_L",
    "LatencyMetricKey": "LATENCY",
    "AccuracyMetricProvider": "ACCURACY",
    "MetricKey": "METRIC_KEY",
}


@pytest.mark.parametrize(("name", "text"), CLASSES.items())
def test_metric_key__classes_of_the_original_match_the_texts(name: str, text: str) -> None:
    metric = type(name, (), {})
    assert metric_key(metric) == text
    assert WeightedSumFormula({metric: 0.5}).evaluate({text: 1.0}) == 0.5
    assert WeightedSumFormula({text: 0.5}).evaluate({metric: 1.0}) == 0.5
    assert WeightedSumFormula({text: 0.5}).evaluate({text.lower(): 1.0}) == 0.5


@pytest.mark.parametrize(
    ("formula", "given"),
    [
        ("LATENCY", "LATENCY_MS"),
        ("LATENCY_MS", "LATENCY"),
        ("LATENCY.p95", "latency_ms.p95"),
        ("F1_SCORE", "F1Score"),
        ("ACCURACY", "AccuracyMetricKey"),
    ],
)
def test_evaluate__other_spellings_of_a_metric_are_found(formula: str, given: str) -> None:
    compiled = KpiFormulaParser().parse(formula).formula
    assert compiled is not None
    assert compiled.evaluate({given: 7.0}) == 7.0
    assert compiled.evaluate({given: 7.0, formula: 8.0}) == 8.0, "the exact name counts"


def test_evaluate__other_statistics_and_scores_are_other_values() -> None:
    for formula, given in (("LATENCY", "LATENCY_MS.p95"), ('SCORE["F1"]', 'SCORE["f1"]')):
        compiled = KpiFormulaParser().parse(formula).formula
        assert compiled is not None
        with pytest.raises(UndefinedFormula):
            compiled.evaluate({given: 7.0})


def test_evaluate__knows_the_aliases_of_metrics() -> None:
    registry.load_metrics()
    for alias, name in registry.METRICS.aliases.items():
        assert WeightedSumFormula({alias: 1}).evaluate({name: 3.0}) == 3.0, alias


@pytest.mark.parametrize(
    ("metric", "key"),
    [
        ("ROUGE", "ROUGE"),
        (Accuracy, "ACCURACY"),
        (F1ScoreMetric, "F1_SCORE"),
        (Precise, "PRECISION"),
    ],
)
def test_metric_key__class_names_its_metric(metric: MetricName, key: str) -> None:
    assert metric_key(metric) == key
