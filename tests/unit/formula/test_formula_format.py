"""The canonical text of formulas."""

import pytest
from hypothesis import given

from mosaico.formula import Expr, format_expression, format_formula, parse_expression
from mosaico.formula.check import check_formula
from mosaico.formula.errors import InvalidFormula
from mosaico.formula.parser import parse_text
from tests.unit.formula.formula_strategies import metrics, numbers, without_deadline


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("average( rouge ,bleu.P95 )", "AVERAGE(ROUGE, BLEU.p95)"),
        ("rouge.MEAN", "ROUGE"),
        ("weighted_sum(a:+.50,b:-1.0)", "WEIGHTED_SUM(A:0.5, B:-1)"),
        ("((a))+(b*c)", "A + B * C"),
        ("(a+b)*c", "(A + B) * C"),
        ("a-(b-c)", "A - (B - C)"),
        ("(a-b)-c", "A - B - C"),
        ("a/(b*c)", "A / (B * C)"),
        ("-(a+b)", "-(A + B)"),
        ("-(a)*b", "-A * B"),
        ("a - -b", "A - -B"),
        ("if not (a>1 and (b>1)) then (1) else (2)", "IF NOT (A > 1 AND B > 1) THEN 1 ELSE 2"),
        ("if (a>1 or b>1) and c>1 then 1 else 2", "IF (A > 1 OR B > 1) AND C > 1 THEN 1 ELSE 2"),
        ("1+(if a>1 then 1 else 2)", "1 + IF A > 1 THEN 1 ELSE 2"),
        ("(if a>1 then 1 else 2)+1", "(IF A > 1 THEN 1 ELSE 2) + 1"),
        ("(1+(if a>1 then 1 else 2))+1", "1 + (IF A > 1 THEN 1 ELSE 2) + 1"),
        ('score [ "Answer Relevance" ] . P95', 'SCORE["Answer Relevance"].p95'),
        (r'SCORE["a\"b\\c"]', r'SCORE["a\"b\\c"]'),
        ("1E300 / 1e-300", "1e+300 / 1e-300"),
        ("100.0", "100"),
    ],
)  # fmt: skip
def test_format__canonical_text_is_upper_case_with_minimal_parentheses(
    text: str, canonical: str
) -> None:
    assert format_formula(text) == canonical
    assert format_formula(canonical) == canonical


@without_deadline
@given(numbers(metrics))
def test_format__canonical_text_parses_to_the_same_formula(root: Expr) -> None:
    text = format_expression(root)
    assert parse_expression(text) == root
    assert format_formula(text) == text


@without_deadline
@given(numbers(metrics))
def test_format__every_pair_of_parentheses_is_necessary(root: Expr) -> None:
    text = format_expression(root)
    for start, end in _grouping_pairs(text):
        shorter = f"{text[:start]} {text[start + 1 : end]} {text[end + 1 :]}"
        assert _meaning(shorter) != root


def _grouping_pairs(text: str) -> list[tuple[int, int]]:
    waiting: list[int] = []
    pairs: list[tuple[int, int]] = []
    quoted, previous = False, ""
    for index, char in enumerate(text):
        if char == '"' and (not quoted or _even_backslashes(text, index)):
            quoted = not quoted
        elif not quoted and char == "(":
            # The parenthesis of a call belongs to the function and groups nothing.
            waiting.append(-1 if previous.isalnum() or previous == "_" else index)
        elif not quoted and char == ")":
            start = waiting.pop()
            if start >= 0:
                pairs.append((start, index))
        previous = char
    return pairs


def _even_backslashes(text: str, index: int) -> bool:
    before = text[:index]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 0


def _meaning(text: str) -> Expr | None:
    root, mistakes, _ = parse_text(text)
    return None if mistakes else root


@pytest.mark.parametrize(
    "name",
    ["ROUGE", "F1_SCORE", "_", "LLM_JUDGE", "P95", "SCORE", "AVERAGE", "PASS_AT_K", "IF", "NOT"],
)
def test_parse__reads_the_name_of_a_metric_as_the_parser_does(name: str) -> None:
    root, mistakes = check_formula(name)
    if root is None or mistakes:
        with pytest.raises(InvalidFormula) as error:
            parse_expression(name)
        assert error.value.mistakes == mistakes
    else:
        assert parse_expression(name) == root
        assert parse_expression(name).span == root.span
