"""Search, reading and arithmetic of the demonstration agent, on values derived by hand."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.retrieval import Index, SearchHit, Section, terms, words
from demo.tools import (
    AgentSetting,
    AgentTimeout,
    CalculationError,
    SearchHostDown,
    Toolbox,
    build_library,
    calculate,
)

SECTIONS = [
    Section(file="prices", heading="Deposit", text="The deposit is 100 euros."),
    Section(file="trouble", heading="Lost keys", text="A lost key costs 40 euros."),
    Section(file="old", heading="Deposit", text="The deposit is 150 euros.", retired=True),
]


def toolbox(setting: AgentSetting, *, search_host_down: bool = False) -> Toolbox:
    return Toolbox(build_library(SECTIONS, setting), setting, search_host_down=search_host_down)


def test_words__decimal_number_is_one_word() -> None:
    assert words("It costs 6.50 euros.") == ["it", "costs", "6.50", "euros"]


@pytest.mark.parametrize(
    ("word", "other"),
    [("booking", "booked"), ("prices", "price"), ("cancelled", "cancel"), ("batteries", "battery")],
)
def test_terms__forms_of_one_word_are_one_term(word: str, other: str) -> None:
    assert terms(word) == terms(other)


def test_terms__stop_words_are_omitted() -> None:
    assert terms("What is it about, and who may do that?") == []


def test_index__bm25_scores_equal_hand_derived_values() -> None:
    # Lengths 2, 1, 3, mean 2. "rope" is in two of three documents: its weight is
    # ln(1 + (3 - 2 + 0.5) / (2 + 0.5)) = ln 1.6. The saturation 2.2 f / (f + 1.2 (0.25 + 0.75 r))
    # is 2.2 / 2.2 for r = 2/2 and 2.2 / 1.75 for r = 1/2: the shorter document comes first.
    index = Index(["lamp rope", "rope", "lamp lamp sail"])

    hits, postings = index.search("rope", limit=5)

    assert [hit.position for hit in hits] == [1, 0]
    assert [hit.score for hit in hits] == pytest.approx([0.590862, 0.470004], abs=1e-6)
    assert postings == 2


def test_index__repeated_term_counts_less_than_double() -> None:
    # "lamp": weight ln 1.6 again; f = 2 and r = 3/2 give 4.4 / (2 + 1.65) = 1.205479.
    hits, _ = Index(["lamp rope", "rope", "lamp lamp sail"]).search("lamp", limit=1)

    assert [hit.position for hit in hits] == [2]
    assert hits[0].score == pytest.approx(math.log(1.6) * 4.4 / 3.65)


def test_index__scores_of_terms_add_up() -> None:
    # "sail" is in one document: weight ln(1 + 2.5 / 1.5) = ln(8/3), saturation 2.2 / 2.65.
    index = Index(["lamp rope", "rope", "lamp lamp sail"])

    both = index.search("lamp sail", limit=1).hits[0].score

    assert both == pytest.approx(math.log(1.6) * 4.4 / 3.65 + math.log(8 / 3) * 2.2 / 2.65)


def test_index__equal_scores_keep_document_order() -> None:
    hits, _ = Index(["rope", "lamp", "rope"]).search("rope", limit=2)

    assert [hit.position for hit in hits] == [0, 2]


def test_index__unknown_word_has_no_hit_and_no_weight() -> None:
    index = Index(["rope"])

    assert index.search("anchor", limit=3) == ([], 0)
    assert index.weight("anchor") == 0.0


def test_index__empty_index_has_no_hits() -> None:
    assert Index([]).search("rope", limit=3) == ([], 0)


@given(
    st.lists(st.lists(st.sampled_from(["rope", "lamp", "sail", "oar"])).map(" ".join)),
    st.sampled_from(["rope", "rope lamp", "oar sail lamp"]),
    st.integers(min_value=1, max_value=4),
)
def test_index__hits_contain_query_term_and_are_sorted(
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
def test_calculate__value_of_expression(expression: str, value: str) -> None:
    assert calculate(expression) == Decimal(value)


@pytest.mark.parametrize(
    "expression",
    ["", "1 / 0", "0 / 0", "2 ** 9", "7 // 2", "(1", "price * 2", "exit()", "1.2.3", "()"],
)
def test_calculate__non_arithmetic_is_rejected(expression: str) -> None:
    with pytest.raises(CalculationError):
        calculate(expression)


@given(*[st.integers(min_value=0, max_value=10**6)] * 3)
def test_calculate__agrees_with_integer_arithmetic(a: int, b: int, c: int) -> None:
    assert calculate(f"{a} * {b} - {c}") == a * b - c


def test_build_library__retired_edition_only_if_setting_says_so() -> None:
    sections = build_library(SECTIONS, AgentSetting()).indexed
    swept = build_library(SECTIONS, AgentSetting(index_retired=True)).indexed

    assert [section.key for section in sections] == ["prices#deposit", "trouble#lost-keys"]
    assert [section.key for section in swept] == [*(s.key for s in sections), "old#deposit"]


def test_build_library__short_index_keeps_first_words() -> None:
    library = build_library(SECTIONS, AgentSetting(indexed_words=3))

    assert [section.text for section in library.indexed] == ["The deposit is", "A lost key"]


def test_toolbox__search_latency_is_base_plus_postings() -> None:
    # "deposit" is in one indexed section: 100 ms for the plan, 20 for the search, 1 posting.
    tools = toolbox(AgentSetting())

    tools.search("deposit")

    assert (tools.elapsed_ms, tools.calls[0].latency_ms) == (121, 21)


def test_toolbox__moved_section_is_tried_three_times() -> None:
    # 100 ms for the plan, three attempts of 600, waits of 0, 300 and 800.
    tools = toolbox(AgentSetting(moved_files=frozenset({"trouble"})))

    assert tools.read(SearchHit(1, 1.0)) is None
    assert [call.ok for call in tools.calls] == [False, False, False]
    assert tools.elapsed_ms == 3000


def test_toolbox__time_limit_ends_the_question() -> None:
    # Two lost sections bring the clock to 5900 of 6000 ms; the next attempt is too much.
    tools = toolbox(AgentSetting(moved_files=frozenset({"trouble"})))
    tools.read(SearchHit(1, 1.0))
    tools.read(SearchHit(1, 1.0))

    with pytest.raises(AgentTimeout, match="6000 ms"):
        tools.read(SearchHit(1, 1.0))


def test_toolbox__search_host_down_is_infra_error() -> None:
    tools = toolbox(AgentSetting(), search_host_down=True)

    with pytest.raises(SearchHostDown):
        tools.search("deposit")
    assert [call.ok for call in tools.calls] == [False]
