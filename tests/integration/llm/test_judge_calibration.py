"""Judge calibration: a judge that scores differently from people makes the run invalid."""

import json

import pytest

from tests.support.llm import ModelService, ReceivedLlmRequest
from tests.support.service import JSON, Service, pair
from tests.support.texts import assert_names

WATCHED = {"key": "LLM_JUDGE", "options": {"prompt": "Judge: {output}"}}
FROZEN = [{"output": text, "gold": gold} for text, gold in (("good", 1), ("fair", 0.5), ("bad", 0))]


class Mood:
    """A judge that knows three words, and may be kinder than it was."""

    kindness = 0.0

    def __call__(self, received: ReceivedLlmRequest) -> str:
        scores = {"good": 1.0, "fair": 0.5, "bad": 0.0}
        score = next(score for word, score in scores.items() if word in received.texts[-1])
        return json.dumps({"reason": "so", "score": min(1.0, score + self.kindness)})


@pytest.fixture
def mood(service: Service, models: ModelService) -> Mood:
    mood = Mood()
    models.judge = mood
    drift = {"metric": WATCHED, "answers": FROZEN, "maxError": 0.1}
    service.create_benchmark(metrics=[WATCHED], judgeCalibration=drift)
    service.upload([pair(1, "x", "a good answer"), pair(2, "x", "a bad answer")])
    return mood


def test_judge_calibration__unchanged_judge_leaves_the_run_valid(
    service: Service, mood: Mood
) -> None:
    run = service.complete_run()
    assert (run["validity"], run["validityReasons"]) == ("VALID", [])


def test_judge_calibration__kinder_judge_makes_the_run_invalid(
    service: Service, mood: Mood, models: ModelService
) -> None:
    assert service.complete_run()["validity"] == "VALID"
    received = len(models.conversations)
    mood.kindness = 0.3
    run: JSON = service.complete_run()
    # The traces were judged before; the three frozen answers are judged in every run.
    assert len(models.conversations) == received + 3
    assert run["validity"] == "INVALID"
    # 1 stays 1; 0.5 and 0 are judged 0.3 too high: 0.6 / 3.
    [reason] = run["validityReasons"]
    assert_names(reason, "LLM_JUDGE scores higher", "3 answers", "mean error of 0.2")
    assert run["verdict"]["verdict"] == "INVALID"
