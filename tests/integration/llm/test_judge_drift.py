"""A judge that scores otherwise than it did: the run says nothing about the agent."""

import json

import pytest

from tests.support.llm import Models, ReceivedLlmRequest
from tests.support.service import JSON, Service, pair

WATCHED = {"key": "LLM_JUDGE", "options": {"prompt": "Judge: {output}"}}
FROZEN = [{"output": text, "gold": gold} for text, gold in (("good", 1), ("fair", 0.5), ("bad", 0))]


class Mood:
    """A judge that knows three words, and may be kinder than it was."""

    kindness = 0.0

    def __call__(self, asked: ReceivedLlmRequest) -> str:
        scores = {"good": 1.0, "fair": 0.5, "bad": 0.0}
        score = next(score for word, score in scores.items() if word in asked.texts[-1])
        return json.dumps({"reason": "so", "score": min(1.0, score + self.kindness)})


@pytest.fixture
def mood(service: Service, models: Models) -> Mood:
    mood = Mood()
    models.judge = mood
    drift = {"metric": WATCHED, "answers": FROZEN, "maxError": 0.1}
    service.benchmark(metrics=[WATCHED], judgeCalibration=drift)
    service.upload([pair(1, "x", "a good answer"), pair(2, "x", "a bad answer")])
    return mood


def test_a_judge_that_scores_as_people_did_is_trusted(service: Service, mood: Mood) -> None:
    run = service.completed()
    assert (run["validity"], run["validityReasons"]) == ("VALID", [])


def test_a_judge_that_became_kinder_makes_the_run_invalid(
    service: Service, mood: Mood, models: Models
) -> None:
    assert service.completed()["validity"] == "VALID"
    asked = len(models.conversations)
    mood.kindness = 0.3
    run: JSON = service.completed()
    # The traces were judged before; the three frozen answers are judged in every run.
    assert len(models.conversations) == asked + 3
    assert run["validity"] == "INVALID"
    # 1 stays 1; 0.5 and 0 are judged 0.3 too high: 0.6 / 3.
    [reason] = run["validityReasons"]
    assert (
        "LLM_JUDGE scores higher than the gold scores of 3 answers, with a mean error of 0.2"
        in reason
    )
    assert run["verdict"]["verdict"] == "INVALID"
