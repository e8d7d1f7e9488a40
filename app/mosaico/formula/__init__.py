"""The KPI formula language: computes a number from metrics, or the reason why it is undefined.

    formula = compile_formula("WEIGHTED_SUM(ROUGE:0.7, BLEU.p95:0.3)", metric_keys={"ROUGE", "BLEU"})
    value, reason = formula.evaluate({Reference("ROUGE", "mean"): 0.5, …})

Pure: no database, no network, no settings. `docs/formula.md` describes the language.
"""

from mosaico.formula.ast import Expr, FormulaSpan, Reference, format_expression
from mosaico.formula.check import check_formula, parse_expression
from mosaico.formula.compile import CompiledFormula, compile_formula
from mosaico.formula.errors import DslParseException, InvalidFormula, Mistake, UndefinedFormula
from mosaico.formula.evaluate import FormulaPart, FormulaValue, explain_parts
from mosaico.formula.functions import help_document
from mosaico.formula.python_api import (
    AverageFormula,
    KpiFormula,
    KpiFormulaParser,
    ParseResult,
    ThresholdFormula,
    WeightedSumFormula,
    add_other_names,
    by_reference,
    known_metric_keys,
    parse,
    read_reference,
    register_metric_keys,
    validate,
)


def format_formula(text: str) -> str:
    """The canonical text of a formula; raises `InvalidFormula` with every mistake."""
    return compile_formula(text).text


__all__ = [
    "AverageFormula",
    "CompiledFormula",
    "DslParseException",
    "Expr",
    "FormulaPart",
    "FormulaSpan",
    "FormulaValue",
    "InvalidFormula",
    "KpiFormula",
    "KpiFormulaParser",
    "Mistake",
    "ParseResult",
    "Reference",
    "ThresholdFormula",
    "UndefinedFormula",
    "WeightedSumFormula",
    "add_other_names",
    "by_reference",
    "check_formula",
    "compile_formula",
    "explain_parts",
    "format_expression",
    "format_formula",
    "help_document",
    "known_metric_keys",
    "parse",
    "parse_expression",
    "read_reference",
    "register_metric_keys",
    "validate",
]
