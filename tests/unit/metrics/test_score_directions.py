"""The better direction of a score: what the user said, otherwise its name."""

import pytest

from mosaico.metrics.score_directions import direction_of_score
from mosaico.metrics.types import Direction

HIGH, LOW, NEITHER = (
    Direction.HIGHER_IS_BETTER, Direction.LOWER_IS_BETTER, Direction.NEITHER,
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "direction", "is_quality"),
    [
        ("faithfulness", HIGH, True),
        ("answer_relevancy", HIGH, True),
        ("Context Precision", HIGH, True),
        ("Correctness [GEval]", HIGH, True),
        ("factualCorrectness", HIGH, True),
        ("groundedness", HIGH, True),
        ("exact_match (strict)", HIGH, True),
        ("F1", HIGH, True),
        ("rougeL", HIGH, True),
        ("reward", HIGH, True),
        ("rating", HIGH, True),
        ("score", HIGH, True),
        ("gpt4_score", HIGH, True),
        ("Quality Score (1–5)", HIGH, True),
        ("toxicity_score", LOW, True),
        ("error_rate", LOW, True),
        ("WER", LOW, True),
        ("perplexity", LOW, True),
        ("self_harm", LOW, True),
        ("noise_sensitivity(mode=relevant)", LOW, True),
        # Known tools score it both ways.
        ("hallucination", NEITHER, True),
        ("hallucination_score", NEITHER, True),
        # A word that means something else than alone.
        ("not_toxic", NEITHER, True),
        ("accuracy_drop", NEITHER, True),
        ("anger_score", NEITHER, True),
        ("refusal_rate", NEITHER, True),
        ("toxicity_accuracy", NEITHER, True),
        ("关联", NEITHER, True),
        ("", NEITHER, True),
        # What an answer took is no quality, whatever its direction.
        ("latency_ms", LOW, False),
        ("total_tokens", LOW, False),
        ("JUDGE_USD", LOW, False),
        ("cost_effectiveness", NEITHER, False),
        ("answer_length", NEITHER, False),
        ("confidence", NEITHER, False),
    ],
)
def test_direction__by_name(name: str, direction: Direction, *, is_quality: bool) -> None:
    known = direction_of_score(name)
    assert (known.direction, known.is_quality) == (direction, is_quality)
    assert known.origin == ("by its name" if direction is not NEITHER else "")


@pytest.mark.parametrize("name", ["hallucination", "toxicity", "faithfulness"])
def test_direction__of_the_user_comes_first(name: str) -> None:
    for better, direction in (("higher", HIGH), ("lower", LOW), ("high", HIGH), ("low", LOW)):
        known = direction_of_score(name, better)
        assert (known.direction, known.origin) == (direction, "as you said")
