"""Columns are recognized by the words of their names."""

import pytest

from mosaico.traces.files.column_words import (
    Certainty,
    certainty_of,
    is_plain_answer,
    names_a_score,
    names_no_score,
)

FIELDS = ("output", "expected", "input")


def kind(column: str) -> str:
    [*kinds] = [field for field in FIELDS if certainty_of(column, field)]
    assert len(kinds) <= 1
    return kinds[0] if kinds else ""


@pytest.mark.parametrize(
    ("field", "columns"),
    [
        (
            "output",
            """
            answer bot_answer chatbotReply Model-Output finalAnswer generated_report predicted_class model_summary
            Antwort Modellantwort réponse respuesta resposta risposta ответ_модели 模型回答 답변 答え जवाब คำตอบ
            claude_response tier1_answer outputs.answer outputs.summary row.response output.text ACTUAL_OUTPUT
            """,
        ),
        (
            "expected",
            """
            expected gold_answer golden groundTruth ground_truths Reference_Answer target ideal correct_answer
            true_label best_answer gold_sql Musterlösung réponse_attendue respuesta_esperada 正解 参考答案 정답 эталон
            reference.answer reference_outputs.text
            """,
        ),
        (
            "input",
            """
            question Prompt user_query userMessage_input Frage pregunta вопрос 質問 问题 질문 prompt_text inputs.question
            inputs.topic question_asked question_posée
            """,
        ),
        (
            "",
            """
            answer_relevancy answer_length prompt_tokens response_time input_token_count model agent expected_tools
            reference_contexts question_id output_format system_prompt judge_reason is_correct correct confidence
            retrieved_contexts outputs.relevance.relevance_threshold note ort
            """,
        ),
    ],
)
def test_certainty__by_the_words_of_a_name(field: str, columns: str) -> None:
    assert {column: kind(column) for column in columns.split()} == dict.fromkeys(
        columns.split(), field
    )


def test_certainty__some_words_say_it_only_where_nothing_else_does() -> None:
    weak = {
        c for c in ("result", "candidate", "raw_response", "inputs.response") if kind(c) == "output"
    }
    assert {c for c in weak if certainty_of(c, "output") is Certainty.WEAK} == {
        "result", "candidate", "raw_response", "inputs.response",
    }  # fmt: skip


def test_is_plain_answer__does_not_say_whose() -> None:
    assert all(map(is_plain_answer, ("answer", "Answers", "answer_text", "Antwort", "回答")))
    assert not any(map(is_plain_answer, ("model_answer", "output", "final_answer")))


@pytest.mark.parametrize(
    ("columns", "is_score", "is_nothing"),
    [
        ("faithfulness Answer_Relevancy judge_score rougeL tone Bewertung 评分 feedback.correctness", True, False),
        (
            """
            turn tstamp line_number execution_time datasource_item_id errorCount bookmarked strictMode total_cost
            score_threshold max_score row_id seed
            """,
            False,
            True,
        ),
        ("foo shoes", False, False),
    ],
)  # fmt: skip
def test_scores__by_the_words_of_a_name(columns: str, is_score: bool, is_nothing: bool) -> None:
    for column in columns.split():
        assert (names_a_score(column), names_no_score(column)) == (is_score, is_nothing), column
