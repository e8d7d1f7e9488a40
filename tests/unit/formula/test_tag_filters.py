"""Filters of tags in formulas: syntax, canonical text, keys, mistakes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.formula import Reference, check_formula, compile_formula, format_formula
from mosaico.formula.ast import filtered_key, split_filter

TEXT = 'TASK_PASSED{category="text"}'


def test_filter__is_part_of_the_reference() -> None:
    formula = compile_formula(f"{TEXT}.p95 - TASK_PASSED", {"TASK_PASSED"})
    assert formula.references == (Reference(TEXT, "p95"), Reference("TASK_PASSED", "mean"))
    values = {Reference(TEXT, "p95"): 0.75, Reference("TASK_PASSED", "mean"): 0.5}
    assert formula.evaluate(values).value == 0.25
    missing = formula.evaluate({Reference("TASK_PASSED", "mean"): 0.5})
    assert missing.reason == f"{TEXT}.p95 has no value (column 1)"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('task_passed{ category = "text" }', TEXT),
        ('A{lang="de",kind="x"}.P95', 'A{kind="x", lang="de"}.p95'),
        ('A{lang="de", lang="de"}', 'A{lang="de"}'),
        ('A{tag="lang:de"}', 'A{lang="de"}'),
        ('A{tag="smoke"}', 'A{tag="smoke"}'),
        ('A{tag="tag:x"}', 'A{tag="tag:x"}'),
        ('SCORE["a{b}"]{lang="de"}.sum', 'SCORE["a{b}"]{lang="de"}.sum'),
        ('LLM_JUDGE["tone"]{say="a \\"b\\" \\\\ }"}', 'LLM_JUDGE["tone"]{say="a \\"b\\" \\\\ }"}'),
    ],
)
def test_filter__has_one_canonical_text(text: str, canonical: str) -> None:
    assert format_formula(text) == canonical
    assert format_formula(canonical) == canonical


def test_split_filter__gives_key_and_tags() -> None:
    assert split_filter('A{kind="x", tag="smoke"}') == ("A", ("kind:x", "smoke"))
    assert split_filter('SCORE["a{b}"]') == ('SCORE["a{b}"]', ())
    assert split_filter("A{broken}") == ("A{broken}", ())


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=3))
def test_filtered_key__is_read_back(tags: list[str]) -> None:
    assert split_filter(filtered_key("ROUGE", tags)) == ("ROUGE", tuple(sorted(set(tags))))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A{category}", "{category} is not a filter"),
        ("A{category='text'}", "{category='text'} is not a filter"),
        ('A{category="text"', "is not a filter"),
        ("A{}", "{} is not a filter"),
        ('A{category=""}', "the value of a filter is empty"),
        ('A{category="\\d"}', "unknown escape in the value of a filter"),
        ('A{category="x"}.coverage', "coverage is a share of all traces"),
        ('NOBODY{category="x"}', "unknown metric NOBODY"),
        ('AVERAGE{category="x"}', "AVERAGE is a function and needs arguments"),
        ('A {category="x"} {lang="de"}', "found '{lang=\"de\"}'"),
        ('{category="x"}', "expected a number, a metric or a function"),
        ('A = B{x="1"}', "unknown operator ="),
    ],
)
def test_filter__mistakes_are_explained(text: str, message: str) -> None:
    mistakes = check_formula(text, {"A", "B"}).mistakes
    assert any(message in mistake.message for mistake in mistakes), mistakes


def test_filter__every_mistake_is_reported_in_one_pass() -> None:
    mistakes = check_formula('A{x} + AVERGE(B{y="1"}) + $', {"A", "B"}).mistakes
    assert [mistake.column for mistake in mistakes] == [2, 8, 27]
