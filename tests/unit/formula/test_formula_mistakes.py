"""Error messages of the formula checker."""

import pytest

from mosaico.formula import InvalidFormula, check_formula, compile_formula

KNOWN = frozenset({"ROUGE", "BLEU", "A", "B", "C"})


def mistakes(text: str) -> list[str]:
    return [str(mistake) for mistake in check_formula(text, KNOWN).mistakes]


def only_mistake(text: str) -> str:
    messages = mistakes(text)
    assert len(messages) == 1, messages
    return messages[0]


def test_check__reports_errors_of_every_kind_in_order() -> None:
    messages = mistakes("AVERGE(ROGUE, $) + * 2 + SQRT(1, 2) + BLEU.p100")
    assert [mistake.split(".")[0] for mistake in messages] == [
        "1:1: unknown function AVERGE",
        "1:8: unknown metric ROGUE",
        "1:15: unknown character $",
        "1:20: expected a number, a metric or a function after '+', found '*'",
        "1:26: SQRT takes 1 argument, not 2",
        "1:44: unknown statistic p100",
    ]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("AVERGE(A)", "1:1: unknown function AVERGE. Did you mean AVERAGE?"),
        ("ROGUE", "1:1: unknown metric ROGUE. Did you mean ROUGE?"),
        ("A.p100", "1:3: unknown statistic p100. Write max."),
        ("A + MIN", "1:5: MIN is a function and needs arguments. Write MIN(x, …)."),
        ("AVERAGE()", "1:1: AVERAGE takes at least 1 argument, not 0."),
        ("THRESHOLD(A)", "1:1: THRESHOLD takes 2 arguments, not 1. Write THRESHOLD(x, t)."),
        ("CLAMP(A, 0)", "1:1: CLAMP takes 3 arguments, not 2."),
        ("MIN(A:1)", "1:5: MIN takes no weights."),
        ("WEIGHTED_SUM(A, B:2)", "1:14: WEIGHTED_SUM needs a weight here. Write A:0.5"),
        ("WEIGHTED_SUM(A:x, B:1)", "1:16: expected a number after ':', found 'x'."),
        ("WEIGHTED_SUM(A:)", "1:16: expected a number after ':', found ')'."),
        ("A > B", "1:1: a KPI is a number, but this formula gives a condition."),
        ("A + (B > 1)", "1:6: '+' needs a number, but this is a condition."),
        ("MIN(A > 1)", "1:5: MIN needs a number, but this is a condition."),
        ("IF A THEN 1 ELSE 0", "1:4: IF needs a condition, but this is a number."),
        ("IF A > 1 AND B THEN 1 ELSE 0", "1:14: AND needs a condition, but this is a number."),
        ("IF NOT A THEN 1 ELSE 0", "1:8: NOT needs a condition, but this is a number."),
        ("IF A > 1 THEN 1 ELSE B > 1", "1:22: THEN gives a number, but ELSE gives a condition."),
        ("IF A < B < C THEN 1 ELSE 0", "1:10: expected an operator or THEN after 'B', found '<'. Comparisons do not chain"),
        ("IF A > 1 THEN 1", "1:16: expected an operator or ELSE after '1', but the formula ends here. Every IF needs"),
        ("(A", "1:3: expected an operator or ')' after 'A', but the formula ends here. Close the '(' of column 1."),
        ("A)", "1:2: expected an operator or the end after 'A', found ')'. Remove this ')'"),
        ("A B", "1:3: expected an operator or the end after 'A', found 'B'. Put an operator"),
        ("A +", "1:4: expected a number, a metric or a function after '+', but the formula ends here."),
        ("+A", "1:1: expected a number, a metric or a function at the start, found '+'."),
        ("A..mean", "1:3: expected a statistic such as mean or p95 after '.', found '.'."),
        ('SCORE["x"', "1:10: expected ']' after"),
        ('SCORE["x', "1:7: the string that starts here has no end."),
        ("SCORE[x]", "1:7: expected a name in double quotes after '[', found 'x'."),
        ('SCORE[""]', "1:7: the name of a score is empty."),
        ('SCORE["a\\n"]', "1:7: unknown escape in the name of a score."),
        ('SCORE["a\nb"]', "1:7: the name of a score has a control character."),
        ('ROUGE["x"]', '1:6: expected an operator or the end after \'ROUGE\', found \'[\'. Only SCORE["name"]'),
        ("A = 1", "1:3: unknown operator =. Write ==."),
        ("A + 1.2.3", "1:5: 1.2.3 is neither a number nor a name."),
        ("2A", "1:1: 2A is neither a number nor a name."),
        ("1e999", "1:1: the number 1e999 is too large."),
        ("A % B", "1:3: unknown character %."),
        ("\ud800", "1:1: unknown character U+D800."),
        ("ELſE", "1:3: unknown character ſ."),
        ("", "1:1: the formula is empty."),
        (" \n ", "1:1: the formula is empty."),
        ("A +\n  ROGUE", "2:3: unknown metric ROGUE."),
    ],
)  # fmt: skip
def test_check__error_has_position_description_and_remedy(text: str, start: str) -> None:
    assert any(message.startswith(start) for message in mistakes(text)), mistakes(text)


def test_parse__unknown_operator_is_read_as_the_intended_one() -> None:
    assert only_mistake("IF A = 1 THEN 1 ELSE 0") == "1:6: unknown operator =. Write ==."
    assert [message[:4] for message in mistakes("IF A ≥ 1 && B <> 2 THEN 1 ELSE 0")] == [
        "1:6:",
        "1:10",
        "1:15",
    ]


def test_parse__one_mistake_gives_one_error() -> None:
    assert len(mistakes("A % B")) == 1
    assert len(mistakes("WEIGHTED_SUM(A:(B + C) * 2, B:1)")) == 1
    assert len(mistakes("AVERAGE(A, , B)")) == 1
    assert len(mistakes("IF A THEN B ELSE C +")) == 1


def test_check__span_covers_exactly_the_faulty_text() -> None:
    text = "AVERAGE(A, ROGUE.p100)"
    mistakes_of_formula = check_formula(text, KNOWN).mistakes
    assert [text[slice(*mistake.span)] for mistake in mistakes_of_formula] == ["ROGUE", "p100"]


def test_check__reports_at_most_twenty_errors() -> None:
    assert len(mistakes(" + ".join(f"X{index}" for index in range(50)))) == 20
    assert len(mistakes("A B " * 100)) == 20
    assert len(mistakes("$ " * 100)) == 20


def test_check__without_a_vocabulary_accepts_any_metric() -> None:
    assert check_formula("WHATEVER + 1").mistakes == ()


def test_check__scores_are_not_in_the_vocabulary() -> None:
    assert check_formula('SCORE["anything"].p95', KNOWN).mistakes == ()


def test_formula_error__lists_every_error_with_its_span() -> None:
    with pytest.raises(InvalidFormula) as caught:
        compile_formula("ROGUE + $", KNOWN)
    assert [(item.pointer, item.span) for item in caught.value.errors] == [
        ("/formula", (0, 5)),
        ("/formula", (8, 9)),
    ]
    assert caught.value.error_code == "invalid-formula"
    assert "2 mistakes" in str(caught.value)


def test_check__cached_formula_is_checked_against_the_vocabulary() -> None:
    # Compiled formulas are cached by their text, whatever the vocabulary was.
    compile_formula("ROGUE * 3")
    with pytest.raises(InvalidFormula, match="unknown metric ROGUE"):
        compile_formula("ROGUE * 3", KNOWN)
