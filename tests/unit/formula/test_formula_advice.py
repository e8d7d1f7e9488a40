"""The table of formula advice: input → message → what the advised form means. Each advised form is executed."""

import math

import pytest
from typer.testing import CliRunner

from mosaico.formula import Reference, check_formula, compile_formula
from mosaico.metrics.formula_cli import cli
from mosaico.metrics.registry import METRICS, load_metrics

# Values that every wrong reading changes.
VALUES = {
    Reference("ROUGE", "mean"): 0.5,
    Reference("BLEU", "mean"): 0.25,
    Reference("F1_SCORE", "mean"): 0.75,
    Reference("LATENCY_MS", "p50"): 90.0,
    Reference("LATENCY_MS", "p90"): 400.0,
    Reference("LATENCY_MS", "p95"): 800.0,
    Reference("LATENCY_MS", "max"): 999.0,
    Reference("LATENCY", "p95"): 800.0,
    Reference("LATENCY", "p90"): 400.0,
    Reference("ROUGE", "sum"): 30.0,
    Reference("ROUGE", "count"): 60.0,
    Reference('SCORE["name"]', "mean"): 0.125,
    Reference("TASK_PASSED", "pass_at_3"): 0.875,
    Reference("TASK_PASSED", "pass_pow_3"): 0.375,
}

# (written, a part of the message, the advised form, its value)
TABLE: list[tuple[str, str, str, float]] = [
    ("ROUGE ^ 2", "unknown operator ^", "POW(ROUGE, 2)", 0.25),
    ("ROUGE ** 2", "unknown operator **", "POW(ROUGE, 2)", 0.25),
    ("(ROUGE + BLEU) ^ 2", "unknown operator ^", "POW(ROUGE + BLEU, 2)", 0.5625),
    ("50%", "unknown character %", "(50 / 100)", 0.5),
    ("ROUGE, BLEU", "found ','", "AVERAGE(ROUGE, BLEU)", 0.375),
    ("F1", "unknown metric F1", "F1_SCORE", 0.75),
    ("ROUGEE", "unknown metric ROUGEE", "ROUGE", 0.5),
    ("SUM", "unknown metric SUM", "ROUGE.sum", 30.0),
    ("SUM(ROUGE)", "unknown function SUM", "ROUGE.sum", 30.0),
    ("COUNT(ROUGE)", "unknown function COUNT", "ROUGE.count", 60.0),
    ("SUM(ROUGE, BLEU)", "unknown function SUM", "(ROUGE + BLEU)", 0.75),
    ("SUM(ROUGE:2, BLEU:1)", "unknown function SUM", "WEIGHTED_SUM(ROUGE:2, BLEU:1)", 1.25),
    ("MEAN(ROUGE, BLEU)", "unknown function MEAN", "AVERAGE(ROUGE, BLEU)", 0.375),
    ("MEAN(ROUGE)", "unknown function MEAN", "ROUGE", 0.5),
    ("p95(LATENCY)", "unknown function P95", "LATENCY.p95", 800.0),
    ("p95(LATENCY_MS)", "unknown function P95", "LATENCY_MS.p95", 800.0),
    ("PERCENTILE(LATENCY_MS, 90)", "unknown function PERCENTILE", "LATENCY_MS.p90", 400.0),
    ("PERCENTILE(LATENCY_MS, 0.9)", "unknown function PERCENTILE", "LATENCY_MS.p90", 400.0),
    ("MEDIAN(LATENCY_MS)", "unknown function MEDIAN", "LATENCY_MS.p50", 90.0),
    ("POWER(ROUGE, 2)", "unknown function POWER", "POW(ROUGE, 2)", 0.25),
    ("LN(ROUGE)", "unknown function LN", "LOG(ROUGE)", math.log(0.5)),
    ("LOG10(ROUGE)", "unknown function LOG10", "(LOG(ROUGE) / LOG(10))", math.log10(0.5)),
    ("SCORE", "SCORE needs the name", 'SCORE["name"]', 0.125),
    ('SCORE("name")', "unknown function SCORE", 'SCORE["name"]', 0.125),
    ("SCORE(name)", "unknown function SCORE", 'SCORE["name"]', 0.125),
    ("PASS_AT_3(TASK_PASSED)", "unknown function", "PASS_AT_K(TASK_PASSED, 3)", 0.875),
    ("PASS_HAT_3(TASK_PASSED)", "unknown function", "PASS_POW_K(TASK_PASSED, 3)", 0.375),
    ("pass@3", "unknown character @", "PASS_AT_K(TASK_PASSED, 3)", 0.875),
    ("pass^3", "unknown operator ^", "PASS_POW_K(TASK_PASSED, 3)", 0.375),
    ("PASS_AT_K(TASK_PASSED)", "takes a metric and", "PASS_AT_K(TASK_PASSED, 3)", 0.875),
    ("PASS_POW_K(TASK_PASSED, 2.5)", "takes a metric and", "PASS_POW_K(TASK_PASSED, 3)", 0.375),
    ("ROUGE && BLEU", "unknown operator &&", "IF ROUGE > 0.5 AND BLEU > 0.5 THEN 1 ELSE 0", 0.0),
    ("ROUGE || BLEU", "unknown operator ||", "IF ROUGE > 0.5 OR BLEU > 0.5 THEN 1 ELSE 0", 0.0),
    ("!ROUGE", "unknown operator !", "IF NOT ROUGE > 0.5 THEN 1 ELSE 0", 1.0),
    ("ROUGE AND BLEU < 1", "needs a condition", "IF ROUGE > 0.5 AND BLEU < 1 THEN 1 ELSE 0", 0.0),
    ("ROUGE >= 0.5", "gives a condition", "IF ROUGE >= 0.5 THEN 1 ELSE 0", 1.0),
    ("ROUGE > 0.4 ? 2 : 3", "unknown character ?", "IF ROUGE > 0.4 THEN 2 ELSE 3", 2.0),
    ("IF(ROUGE > 0.4, 2, 3)", "found ','", "(IF ROUGE > 0.4 THEN 2 ELSE 3)", 2.0),
    ("LATENCY_MS.p100", "unknown statistic", "max", 999.0),
    ("LATENCY_MS.median", "unknown statistic", "p50", 90.0),
]


def known() -> frozenset[str]:
    load_metrics()
    return frozenset({*METRICS.names(), *METRICS.aliases})


@pytest.mark.parametrize(
    ("text", "message", "advised", "value"), TABLE, ids=[row[0] for row in TABLE]
)
def test_formula_advice__advised_form_means_what_was_meant(
    text: str, message: str, advised: str, value: float
) -> None:
    mistakes = check_formula(text, known()).mistakes
    assert any(message in mistake.message for mistake in mistakes), mistakes
    given = [mistake for mistake in mistakes if f"rite {advised}" in mistake.remedy] or [
        mistake for mistake in mistakes if f"Did you mean {advised}" in mistake.remedy
    ]
    assert given, [mistake.remedy for mistake in mistakes]
    # A statistic is advised in the place of the wrong one, everything else as a whole formula.
    is_statistic = "unknown statistic" in given[0].message
    formula = text[: given[0].span.start] + advised if is_statistic else advised
    result = compile_formula(formula, known()).evaluate(VALUES)
    assert result.value == pytest.approx(value), result.reason


@pytest.mark.parametrize(
    "text", ["ROUGE ^ 2", "ROUGE % 2", "ROUGE; BLEU", "ROUGE § 2", "$ROUGE", "{x}"]
)
def test_formula_advice__nothing_with_a_meaning_is_to_be_removed(text: str) -> None:
    mistakes = check_formula(text, known()).mistakes
    assert mistakes
    assert not any("Remove it" in mistake.remedy for mistake in mistakes)


# (written, the part that the advice replaces, its value): operators stand around the part.
INSIDE = [
    ("2 * SUM(ROUGE, BLEU)", "SUM(ROUGE, BLEU)", 1.5),
    ("SUM(ROUGE, BLEU) / 2", "SUM(ROUGE, BLEU)", 0.375),
    ("1 - SUM(ROUGE - BLEU, F1_SCORE)", "SUM(ROUGE - BLEU, F1_SCORE)", 0.0),
    ("SUM(IF BLEU > 0.5 THEN 1 ELSE 0, ROUGE)", "SUM(IF BLEU > 0.5 THEN 1 ELSE 0, ROUGE)", 0.5),
    ("1 / LOG10(ROUGE)", "LOG10(ROUGE)", 1 / math.log10(0.5)),
    ("IF(ROUGE > 0.4, 2, 3) * 10", "IF(ROUGE > 0.4, 2, 3)", 20.0),
    ("10 * (ROUGE > 0.4 ? 2 : 3)", "ROUGE > 0.4 ? 2 : 3", 20.0),
    ("MAX(BLEU, ROUGE > 0.4 ? 2 : 3, 1)", "ROUGE > 0.4 ? 2 : 3", 2.0),
    ("IF AND(ROUGE > 0.4, BLEU > 0.4) THEN 1 ELSE 0", "AND(ROUGE > 0.4, BLEU > 0.4)", 0.0),
    ("IF NOT AND(ROUGE > 0.4, BLEU > 0.4) THEN 1 ELSE 0", "AND(ROUGE > 0.4, BLEU > 0.4)", 1.0),
    ("IF NOT OR(BLEU > 0.4, ROUGE > 0.4) THEN 1 ELSE 0", "OR(BLEU > 0.4, ROUGE > 0.4)", 0.0),
    ("WEIGHTED_SUM(ROUGE * 0.5, BLEU:1)", "ROUGE * 0.5", 0.5),
    ("WEIGHTED_SUM(2 * (ROUGE + BLEU), BLEU:1)", "2 * (ROUGE + BLEU)", 1.75),
]  # fmt: skip


@pytest.mark.parametrize(("text", "part", "value"), INSIDE, ids=[row[0] for row in INSIDE])
def test_formula_advice__form_in_the_place_of_a_part_means_what_was_meant(
    text: str, part: str, value: float
) -> None:
    [first, *_] = check_formula(text, known()).mistakes
    advised = first.remedy.removeprefix("Write ").removesuffix(".")
    result = compile_formula(text.replace(part, advised), known()).evaluate(VALUES)
    assert result.value == pytest.approx(value), result.reason


@pytest.mark.parametrize(
    ("text", "hint"), [("LOG(ROUGE)", None), ("ROUGE + BLEU.p90", '{"BLEU.p90": 0.5}')]
)
def test_formula_eval__asks_for_the_values_that_are_missing(text: str, hint: str | None) -> None:
    result = CliRunner().invoke(cli, ["eval", text, "--values", '{"ROUGE": 0}'])
    assert "is undefined" in result.stderr
    assert ("--values" in result.stderr) == (hint is not None)
    assert hint is None or hint in result.stderr


@pytest.mark.parametrize(
    ("text", "code"), [("ROUGEE", 65), ("ROUGE", 0), ("LATENCY", 0), ("SUM", 65)]
)
def test_formula_check__knows_the_metrics_that_can_be_measured(text: str, code: int) -> None:
    assert CliRunner().invoke(cli, ["check", text]).exit_code == code
