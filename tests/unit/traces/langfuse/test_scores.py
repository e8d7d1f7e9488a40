"""One number for each name, out of all the scores that a trace may have."""

from typing import Any

import pytest

from app.traces.sources.langfuse.scores import group_by_trace, select_scores

JSON = dict[str, Any]


def score(name: str, value: Any, **more: Any) -> JSON:
    return {"name": name, "value": value, "dataType": "NUMERIC", **more}


def on_span(span_id: str) -> JSON:
    return {"kind": "observation", "id": span_id, "traceId": "t-1"}


def test_numbers_and_truths_are_taken_and_everything_else_is_no_number() -> None:
    found = select_scores(
        [
            score("Tone", 0.5),
            score("Whole", 3),
            score("Kind", True, dataType="BOOLEAN"),
            score("Kind in v3", 0, dataType="BOOLEAN"),
            score("Category", "good", dataType="CATEGORICAL"),
            score("Category in v3", 1, dataType="CATEGORICAL"),
            score("Words", "fine", dataType="TEXT"),
            score("Better answer", "…", dataType="CORRECTION"),
            score("Not finite", float("nan")),
            score("Beyond every float", 10**400),
            score("Number as text", "0.5"),
            score("", 1.0),
            "no score at all",
        ],
        task_id="task",
    )
    assert found == {"Tone": 0.5, "Whole": 3.0, "Kind": 1.0, "Kind in v3": 0.0}


def test_a_score_of_the_trace_wins_over_its_task_and_that_over_a_span_below() -> None:
    trace = score("Tone", 1.0, subject={"kind": "trace", "id": "t-1"}, timestamp="2026-01-01")
    task = score("Tone", 0.5, subject=on_span("task"), timestamp="2026-01-02")
    child = score("Tone", 0.1, subject=on_span("call"), timestamp="2026-01-03")
    assert select_scores([trace, task, child], task_id="task") == {"Tone": 1.0}
    assert select_scores([child, task], task_id="task") == {"Tone": 0.5}
    assert select_scores([child], task_id="task") == {"Tone": 0.1}


def test_of_two_on_the_same_place_the_newest_counts() -> None:
    old, new = score("Tone", 0, timestamp="2026-01-01"), score("Tone", 1, timestamp="2026-01-02")
    assert select_scores([new, old], task_id="task") == {"Tone": 1.0}


@pytest.mark.parametrize(
    "belongs",
    [
        {"subject": {"kind": "trace", "id": "t-1"}},
        {"subject": on_span("call")},
        {"traceId": "t-1", "observationId": "call"},
    ],
)
def test_a_score_is_of_the_trace_that_it_or_its_span_belongs_to(belongs: JSON) -> None:
    found = score("Tone", 1.0, **belongs)
    assert group_by_trace(
        [found, score("Run", 1.0, subject={"kind": "experiment", "id": "e"})]
    ) == {"t-1": [found]}
