"""The explanation of a formula as a tree."""

from mosaico.formula import Reference, compile_formula, explain_parts
from mosaico.formula.evaluate import FormulaPart

VALUES = {Reference("A", "mean"): 0.5, Reference("B", "mean"): 0.25, Reference("C", "mean"): None}


def lines(part: FormulaPart, depth: int = 0) -> list[tuple[int, str, float | bool | None]]:
    children = [line for child in part.parts for line in lines(child, depth + 1)]
    return [(depth, part.text, part.value), *children]


def explain(text: str) -> FormulaPart:
    formula = compile_formula(text)
    return explain_parts(formula.root, formula.source, VALUES)


def test_explanation__has_the_value_of_each_part() -> None:
    assert lines(explain("if (a + b) * 2 > 1 then average(A, B) else 0")) == [
        (0, "IF (A + B) * 2 > 1 THEN AVERAGE(A, B) ELSE 0", 0.375),
        (1, "(A + B) * 2 > 1", True),
        (2, "(A + B) * 2", 1.5),
        (3, "A + B", 0.75),
        (4, "A", 0.5),
        (4, "B", 0.25),
        (1, "AVERAGE(A, B)", 0.375),
        (2, "A", 0.5),
        (2, "B", 0.25),
    ]


def test_explanation__names_the_part_that_has_no_value() -> None:
    part = explain("AVERAGE(A, C)")
    assert part.value is None
    assert part.reason == "C has no value (column 12)"
    assert [(child.text, child.value, child.reason) for child in part.parts] == [
        ("A", 0.5, None),
        ("C", None, "C has no value (column 12)"),
    ]
