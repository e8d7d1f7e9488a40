"""Search, reading and arithmetic of the demonstration agent, on values derived by hand."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.retrieval import Hit, Index, Section, terms, words
from demo.tools import (
    CalculationError,
    HostAway,
    OutOfTime,
    Setting,
    Toolbox,
    build_library,
    calculate,
)

SECTIONS = [
    Section(file="prices", heading="Deposit", text="The deposit is 100 euros."),
    Section(file="trouble", heading="Lost keys", text="A lost key costs 40 euros."),
    Section(file="old", heading="Deposit", text="The deposit is 150 euros.", retired=True),
]


def toolbox(setting: Setting, *, host_away: bool = False) -> Toolbox:
    return Toolbox(build_library(SECTIONS, setting), setting, host_away=host_away)


def test_a_decimal_number_is_one_word() -> None:
    assert words("It costs 6.50 euros.") == ["it", "costs", "6.50", "euros"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("booking", "booked"), ("prices", "price"), ("cancelled", "cancel"), ("batteries", "battery")],
)
def test_forms_of_one_word_are_one_term(one: str, other: str) -> None:
    assert terms(one) == terms(other)


def test_words_without_meaning_are_no_terms() -> None:
    assert terms("What is it about, and who may do that?") == []


def test_bm25_scores_equal_the_values_derived_by_hand() -> None:
    # Lengths 2, 1, 3, mean 2. "rope" is in two of three documents: its weight is
    # ln(1 + (3 - 2 + 0.5) / (2 + 0.5)) = ln 1.6. The saturation 2.2 f / (f + 1.2 (0.25 + 0.75 r))
    # is 2.2 / 2.2 for r = 2/2 and 2.2 / 1.75 for r = 1/2: the shorter document comes first.
    index = Index(["lamp rope", "rope", "lamp lamp sail"])

    hits, postings = index.search("rope", limit=5)

    assert [hit.position for hit in hits] == [1, 0]
    assert [hit.score for hit in hits] == pytest.approx([0.590862, 0.470004], abs=1e-6)
    assert postings == 2


def test_a_term_that_occurs_twice_counts_more_but_not_double() -> None:
    # "lamp": weight ln 1.6 again; f = 2 and r = 3/2 give 4.4 / (2 + 1.65) = 1.205479.
    hits, _ = Index(["lamp rope", "rope", "lamp lamp sail"]).search("lamp", limit=1)

    assert [hit.position for hit in hits] == [2]
    assert hits[0].score == pytest.approx(math.log(1.6) * 4.4 / 3.65)


def test_the_scores_of_several_terms_add_up() -> None:
    # "sail" is in one document: weight ln(1 + 2.5 / 1.5) = ln(8/3), saturation 2.2 / 2.65.
    index = Index(["lamp rope", "rope", "lamp lamp sail"])

    both = index.search("lamp sail", limit=1).hits[0].score

    assert both == pytest.approx(math.log(1.6) * 4.4 / 3.65 + math.log(8 / 3) * 2.2 / 2.65)


def test_equal_scores_keep_the_order_of_the_documents() -> None:
    hits, _ = Index(["rope", "lamp", "rope"]).search("rope", limit=2)

    assert [hit.position for hit in hits] == [0, 2]


def test_an_unknown_word_finds_nothing_and_weighs_nothing() -> None:
    index = Index(["rope"])

    assert index.search("anchor", limit=3) == ([], 0)
    assert index.weight("anchor") == 0.0


def test_an_index_of_nothing_finds_nothing() -> None:
    assert Index([]).search("rope", limit=3) == ([], 0)


@given(
    st.lists(st.lists(st.sampled_from(["rope", "lamp", "sail", "oar"])).map(" ".join)),
    st.sampled_from(["rope", "rope lamp", "oar sail lamp"]),
    st.integers(min_value=1, max_value=4),
)
def test_every_hit_holds_a_word_of_the_query_and_the_best_comes_first(
    documents: list[str], query: str, limit: int
) -> None:
    hits, _ = Index(documents).search(query, limit=limit)

    scores = [hit.score for hit in hits]
    assert len(hits) <= limit
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)
    assert all(set(query.split()) & set(documents[hit.position].split()) for hit in hits)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * 3 * 36", "216"),  # two Herons for three days
        ("22 * (100 - 15) / 100", "18.7"),  # a pensioner's Puffin
        ("6.50 * 3", "19.5"),
        ("0.1 + 0.2", "0.3"),  # decimal, not binary
        ("-(4 - 6)", "2"),
    ],
)
def test_calculate_gives_the_value_of_an_expression(expression: str, value: str) -> None:
    assert calculate(expression) == Decimal(value)


@pytest.mark.parametrize(
    "expression",
    ["", "1 / 0", "0 / 0", "2 ** 9", "7 // 2", "(1", "price * 2", "exit()", "1.2.3", "()"],
)
def test_calculate_refuses_what_is_not_arithmetic(expression: str) -> None:
    with pytest.raises(CalculationError):
        calculate(expression)


@given(*[st.integers(min_value=0, max_value=10**6)] * 3)
def test_calculate_agrees_with_whole_numbers(a: int, b: int, c: int) -> None:
    assert calculate(f"{a} * {b} - {c}") == a * b - c


def test_the_retired_edition_is_indexed_only_where_the_setting_says_so() -> None:
    kept = build_library(SECTIONS, Setting()).indexed
    swept = build_library(SECTIONS, Setting(index_retired=True)).indexed

    assert [section.key for section in kept] == ["prices#deposit", "trouble#lost-keys"]
    assert [section.key for section in swept] == [*(s.key for s in kept), "old#deposit"]


def test_a_short_index_keeps_the_first_words_of_a_section() -> None:
    library = build_library(SECTIONS, Setting(indexed_words=3))

    assert [section.text for section in library.indexed] == ["The deposit is", "A lost key"]


def test_a_search_takes_a_base_and_one_step_per_posting() -> None:
    # "deposit" is in one indexed section: 100 ms for the plan, 20 for the search, 1 posting.
    tools = toolbox(Setting())

    tools.search("deposit")

    assert (tools.elapsed_ms, tools.calls[0].latency_ms) == (121, 21)


def test_a_section_that_moved_is_tried_three_times_and_given_up() -> None:
    # 100 ms for the plan, three attempts of 600, waits of 0, 300 and 800.
    tools = toolbox(Setting(moved=frozenset({"trouble"})))

    assert tools.read(Hit(1, 1.0)) is None
    assert [call.ok for call in tools.calls] == [False, False, False]
    assert tools.elapsed_ms == 3000


def test_the_agent_gives_up_when_its_time_is_over() -> None:
    # Two lost sections bring the clock to 5900 of 6000 ms; the next attempt is too much.
    tools = toolbox(Setting(moved=frozenset({"trouble"})))
    tools.read(Hit(1, 1.0))
    tools.read(Hit(1, 1.0))

    with pytest.raises(OutOfTime, match="6000 ms"):
        tools.read(Hit(1, 1.0))


def test_a_search_host_that_is_away_is_not_the_agents_fault() -> None:
    tools = toolbox(Setting(), host_away=True)

    with pytest.raises(HostAway):
        tools.search("deposit")
    assert [call.ok for call in tools.calls] == [False]
