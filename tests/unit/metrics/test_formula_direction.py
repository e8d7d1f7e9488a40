"""The direction of a KPI follows from its formula."""

import pytest

from mosaico.metrics.formula_direction import (
    KpiFormulaText,
    direction_of_formula,
    direction_warnings,
    parse_kpi_text,
)
from mosaico.metrics.types import Direction

pytestmark = pytest.mark.usefixtures("plugins")
HIGHER, LOWER = Direction.HIGHER_IS_BETTER, Direction.LOWER_IS_BETTER


@pytest.mark.parametrize(
    "formula",
    [
        "ROUGE",
        "AVERAGE(ROUGE, BLEU)",
        "-LATENCY_MS",
        "1 - ERROR_RATE",
        "1000 / LATENCY_MS.p95",
        "ROUGE / LATENCY_MS",
        "ROUGE - 0.001 * LATENCY_MS",
        "WEIGHTED_SUM(ROUGE:0.7, LATENCY_MS:-0.3)",
        "THRESHOLD(ACCURACY, 0.8)",
        "IF LATENCY_MS.p95 < 1000 THEN 1 ELSE 0",
        "IF NOT LATENCY_MS > 3 AND ROUGE > 0.4 THEN 2 ELSE 1",
        "IF ACCURACY >= 0.8 THEN ROUGE ELSE 0",
        "IF TOOL_CALLS == 0 THEN 1 ELSE TOOL_CALL_SUCCESS_RATE",
        "STATUS.sum / STATUS.count",
        "ROUGE.coverage",
        'ROUGE{lang="de"}',
        "SQRT(PRECISION * RECALL)",
        "COALESCE(ROUGE, 0)",
    ],
)
def test_direction__higher_is_better(formula: str) -> None:
    assert direction_of_formula(formula) is HIGHER


@pytest.mark.parametrize(
    "formula",
    [
        "LATENCY_MS.p95",
        "LATENCY",
        "1 - ACCURACY",
        "COST_USD.sum / ACCURACY.sum",
        "LATENCY_MS * COST_USD",
        "LATENCY_MS * (1 - ACCURACY)",
        "THRESHOLD(LATENCY_MS, 1000)",
        "THRESHOLD(0.8, ACCURACY)",
        "CLAMP(LATENCY_MS / 1000, 0, 1)",
        "LOG(1 + COST_USD)",
        "MAX(LATENCY_MS, 1000 * ERROR_RATE)",
        "ABS(0 - LATENCY_MS)",
        "IF ROUGE > 0.5 THEN 0 ELSE 1",
    ],
)
def test_direction__lower_is_better(formula: str) -> None:
    assert direction_of_formula(formula) is LOWER


@pytest.mark.parametrize(
    "formula",
    [
        "WEIGHTED_SUM(ROUGE:0.7, LATENCY_MS:0.3)",
        "PRECISION - RECALL",
        "ABS(PRECISION - RECALL)",
        "LATENCY_MS.p95 / LATENCY_MS.p50",
        "ROUGE * LATENCY_MS",
        "1 / (PRECISION - 0.5)",
        "ROUGE * (RECALL - 0.5)",
        "IF ROUGE > 0.5 THEN ROUGE ELSE LATENCY_MS",
        "TOOL_CALLS",
        "ROUGE.count",
        "ROUGE.std",
        "0 * ROUGE",
        "3",
    ],
)
def test_direction__is_unknown_for_mixed_parts_and_parts_without_one(formula: str) -> None:
    assert direction_of_formula(formula) is Direction.NEITHER
    assert "no direction follows" in direction_warnings(formula, Direction.NEITHER)[0]
    assert direction_warnings(formula, HIGHER) == []


def test_warnings__name_a_contradiction_only() -> None:
    [warning] = direction_warnings("LATENCY_MS.p95", HIGHER)
    assert "says that higher is better" in warning
    assert "by LATENCY_MS.p95 lower is better" in warning
    assert direction_warnings("LATENCY_MS.p95", LOWER) == []
    assert direction_warnings("LATENCY_MS.p95", Direction.NEITHER) == []
    assert direction_warnings("no formula (", HIGHER) == []


@pytest.mark.parametrize(
    ("text", "formula", "direction"),
    [
        ("LATENCY_MS.p95", "LATENCY_MS.p95", None),
        ("LATENCY_MS.p95 lower", "LATENCY_MS.p95", LOWER),
        ("AVERAGE(ROUGE, BLEU)   higher ", "AVERAGE(ROUGE, BLEU)", HIGHER),
        ("TOOL_CALLS neither", "TOOL_CALLS", Direction.NEITHER),
        ('SCORE["is lower"]', 'SCORE["is lower"]', None),
        ("lower", "lower", None),
    ],
)
def test_parse_kpi_text__direction_is_the_last_word(
    text: str, formula: str, direction: Direction | None
) -> None:
    assert parse_kpi_text(text) == KpiFormulaText(formula, direction)
