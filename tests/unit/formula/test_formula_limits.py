"""Limits of the formula language, and arbitrary text as input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.formula import Mistake, check_formula, compile_formula, format_formula
from mosaico.formula.functions import MAX_BYTES, MAX_DEPTH, MAX_NODES
from tests.unit.formula.formula_strategies import without_deadline

# Among them what confuses readers of text: `ſ` is an S in upper case, U+2028 ends a line for some,
# and U+D800 cannot be encoded.
PIECES = (
    *("ROUGE", "bleu", ".p95", "SCORE[", '"x"', "]", "(", ")", ",", ":", "1", "0.5", "1e9", " "),
    *("+", "-", "*", "/", "<", "<=", "==", "=", "!", "AND", "or", "NOT", "if", "THEN", "ELSE"),
    *("AVERAGE(", "weighted_sum(", "MIN(", "COALESCE(", "LOG(", "\n", "\t", "$", "é", "\x00"),
    *("\ud800", "\\", '"', "'", "🙂", "ſ", "\u2028", ".", "..", "1.", "9" * 30, "__class__"),
)


def only_mistake(text: str) -> str:
    (mistake,) = check_formula(text).mistakes
    return str(mistake)


@pytest.mark.parametrize(
    # `é` has two bytes: the limit is of bytes, not of characters.
    "text",
    ["(" * 10_000, "A" * 1_000_000, "é" * (MAX_BYTES // 2 + 1), " " * (MAX_BYTES + 1)],
)
def test_parse__text_over_4_kib_is_refused(text: str) -> None:
    assert only_mistake(text).startswith("1:1: the formula is longer than 4096 bytes.")


@pytest.mark.parametrize(
    ("deepest", "too_deep"),
    [
        ("(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH, "(" * (MAX_DEPTH + 1) + "1"),
        # The name inside is the 32nd level.
        ("ABS(" * 31 + "A" + ")" * 31, "ABS(" * 32 + "A" + ")" * 32),
        ("-" * 31 + "A", "-" * 32 + "A"),
        ("1-(" * 31 + "A" + ")" * 31, "1-(" * 32 + "A" + ")" * 32),
        ("IF A>1 THEN 1 ELSE " * 30 + "A", "IF A>1 THEN 1 ELSE " * 31 + "A"),
    ],
)
def test_parse__nesting_is_limited_to_32_levels(deepest: str, too_deep: str) -> None:
    assert check_formula(deepest).mistakes == ()
    assert check_formula(format_formula(deepest)).mistakes == ()
    assert "nested more than 32 deep" in only_mistake(too_deep)


def test_parse__long_chain_is_one_level() -> None:
    assert compile_formula("+".join(["1"] * 128)).evaluate({}).value == 128.0
    assert compile_formula("*".join(["1"] * 128)).evaluate({}).value == 1.0


def test_parse__formula_is_limited_to_256_nodes() -> None:
    # n numbers and n - 1 signs: 128 numbers make 255 parts, 129 make 257
    assert check_formula("AVERAGE(" + ",".join(["1"] * (MAX_NODES - 1)) + ")").mistakes == ()
    assert "more than 256 parts" in only_mistake("+".join(["1"] * 129))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "(" * 4096,
            "-" * 4095 + "1",
            "NOT " * 1000,
            "IF " * 1300,
            "IF A THEN " * 400,
            '"' * 4096,
        ),
        *(") " * 2000, "A B " * 1000, "AVERAGE(" * 500, "\x00" * 4096, "9" * 4096, "A:" * 2000),
    ],
)
def test_parse__hostile_text_gives_errors(text: str) -> None:
    assert check_formula(text).mistakes


@without_deadline
@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_parse__any_text_gives_a_formula_or_errors(text: str) -> None:
    assert_formula_or_errors(text)


def assert_formula_or_errors(text: str) -> None:
    """Either mistakes that can be printed and point into the text, or a formula that computes."""
    mistakes = check_formula(text).mistakes
    for mistake in mistakes:
        assert_printable(text, mistake)
    if not mistakes:
        formula = compile_formula(text)
        assert compile_formula(formula.text).root == formula.root
        value, reason = formula.evaluate(dict.fromkeys(formula.references, 0.5))
        assert (value is None) != (reason is None)


def assert_printable(text: str, mistake: Mistake) -> None:
    assert str(mistake).encode()
    assert str(mistake).isprintable()
    assert 0 <= mistake.span.start <= mistake.span.end <= len(text)
    lines = text.split("\n")
    assert 1 <= mistake.line <= len(lines)
    assert 1 <= mistake.column <= len(lines[mistake.line - 1]) + 1
