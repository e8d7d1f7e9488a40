"""Selection of one score per name."""

from typing import Any

import pytest

from mosaico.traces.sources.langfuse.scores import group_by_trace, select_scores

JSON = dict[str, Any]


def score(name: str, value: Any, **more: Any) -> JSON:
    return {"name": name, "value": value, "dataType": "NUMERIC", **more}


def on_span(span_id: str) -> JSON:
    return {"kind": "observation", "id": span_id, "traceId": "t-1"}


def test_select_scores__keeps_numbers_and_booleans_only() -> None:
    scores = select_scores(
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
    assert scores == {"Tone": 0.5, "Whole": 3.0, "Kind": 1.0, "Kind in v3": 0.0}


def test_select_scores__trace_precedes_task_precedes_child() -> None:
    trace = score("Tone", 1.0, subject={"kind": "trace", "id": "t-1"}, timestamp="2026-01-01")
    task = score("Tone", 0.5, subject=on_span("task"), timestamp="2026-01-02")
    child = score("Tone", 0.1, subject=on_span("call"), timestamp="2026-01-03")
    assert select_scores([trace, task, child], task_id="task") == {"Tone": 1.0}
    assert select_scores([child, task], task_id="task") == {"Tone": 0.5}
    assert select_scores([child], task_id="task") == {"Tone": 0.1}


def test_select_scores__newest_of_equal_priority_wins() -> None:
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
def test_group_by_trace__uses_the_trace_of_the_score_or_its_span(belongs: JSON) -> None:
    tone = score("Tone", 1.0, **belongs)
    assert group_by_trace([tone, score("Run", 1.0, subject={"kind": "experiment", "id": "e"})]) == {
        "t-1": [tone]
    }
