"""How the demonstration agent plans, quotes, adds up and checks itself."""

from pathlib import Path

import pytest

from demo.agent import Answer, Question, answer, groundedness, main, plan, trace
from demo.retrieval import Section
from demo.tools import AgentError, AgentSetting, Toolbox, build_library

SECTIONS = [
    Section(
        file="prices",
        heading="Price of the Heron",
        text="A Heron costs 8 euros per hour. A whole day with a Heron costs 36 euros.",
    ),
    Section(file="loading", heading="Dogs", text="Dogs may never ride alone."),
    Section(file="old", heading="Dogs", text="Cats may ride alone.", retired=True),
]
GOOD = AgentSetting()


def ask(question: str, setting: AgentSetting = GOOD) -> str:
    return answer(Toolbox(build_library(SECTIONS, setting), setting), question, setting).text


def test_demo_plan__question_for_two_things_needs_two_sentences() -> None:
    assert plan("Who painted it, and why?").sentence_count == 2
    assert plan("Who painted it?").sentence_count == 1


def test_demo_plan__only_question_for_sum_has_quantities() -> None:
    assert plan("What do 2 Herons for 3 days cost altogether?").quantities == ("2", "3")
    assert plan("What is allowed after 9 in the evening?").quantities == ()


def test_demo_plan__last_sentence_is_the_request() -> None:
    assert plan("I am late. How long is the bike kept?").request == "How long is the bike kept?"


def test_demo_answer__best_matching_sentence_is_quoted() -> None:
    assert ask("How much is a whole day with a Heron?") == (
        "A whole day with a Heron costs 36 euros."
    )


def test_demo_answer__sum_is_price_times_quantities() -> None:
    # 2 bikes, 3 days, 36 euros: 216.
    assert ask("What do 2 Herons for 3 whole days cost altogether?") == (
        "It costs 216 euros altogether."
    )


def test_demo_answer__yes_no_question_gets_yes_or_no() -> None:
    assert ask("May dogs ride alone?") == "No: Dogs may never ride alone."


def test_demo_answer__no_match_is_agent_error() -> None:
    with pytest.raises(AgentError, match="nothing in the handbook matches"):
        ask("Do you sell umbrellas?")


def test_demo_answer__unreadable_section_is_agent_error() -> None:
    with pytest.raises(AgentError, match="can be read"):
        ask("May dogs come along?", AgentSetting(moved_files=frozenset({"loading"})))


def test_groundedness__current_section_of_heading_counts() -> None:
    # Of the terms cat, rid, alon the current section "Dogs" holds the last two.
    library = build_library(SECTIONS, AgentSetting(index_retired=True))

    stale = Answer("Cats may ride alone.", [SECTIONS[2]])

    assert groundedness(stale, library) == pytest.approx(2 / 3, abs=1e-4)


def test_demo_trace__tokens_cost_and_latency() -> None:
    # In: 4 words of the question, 1 of the heading found, 5 of the section read. Out: 6 words.
    # 10 * 3 + 6 * 15 = 120 dollars per million. 100 plan + 20 search + 3 postings (dog, rid, alon
    # each in one section) + 10 and 5 read + 6 * 15 writing = 228 ms.
    setting = AgentSetting()
    question = Question(
        id="q-1", question="May dogs ride alone?", answer="No.", section="loading#dogs", tags=()
    )
    tools = Toolbox(build_library(SECTIONS, setting), setting)

    line = trace(question, run_name="run-9", tools=tools, setting=setting)

    assert line["traceId"] == "run-9-q-1"
    assert (line["inputTokens"], line["outputTokens"]) == (10, 6)
    assert line["costUsd"] == 0.00012
    assert line["latencyMs"] == 228
    assert line["scores"] == {"Groundedness": 1.0}


def test_demo_agent__missing_questions_file_has_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--questions", str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "out.jsonl")])

    assert stopped.value.code == 2
    assert "is not a file; name one" in capsys.readouterr().err
