"""Whose calls are whose, and what they cost."""

from typing import Any

import pytest

from app.traces.sources.langfuse.usage import (
    AgentUsage,
    ObservedSpan,
    TaskSpan,
    parse_span,
    select_descendants,
    split_calls,
    sum_usage,
)
from app.traces.types import ToolCall

TASK = TaskSpan(id="task", trace_id="t-1", start=0, end=1_000)


def span(span_id: str, parent: str | None, start: int = 10, **more: Any) -> ObservedSpan:
    fields: dict[str, Any] = {
        "id": span_id,
        "trace_id": "t-1",
        "parent_id": parent,
        "type": "GENERATION",
        "name": span_id,
        "start": start,
        "end": start + 5,
        "failed": False,
        "input_tokens": 10,
        "output_tokens": 2,
        "cost_usd": 0.5,
        "tags": (),
        **more,
    }
    return ObservedSpan(**fields)


def row(**fields: Any) -> dict[str, Any]:
    return {"id": "a", "traceId": "t-1", "startTime": "2026-11-20T02:00:00.250Z", **fields}


def ids(spans: list[ObservedSpan]) -> list[str]:
    return [each.id for each in spans]


def test_calls_below_the_task_are_the_agents_and_those_beside_it_the_judges() -> None:
    tree = [
        span("answer", "task"),
        span("agent", "task", type="AGENT"),
        span("deep", "agent", 20),
        span("judge-call", "judge", 1_500),
        span("judge", "evaluation", 1_400, type="EVALUATOR"),
        span("evaluation", "run", 1_300, type="SPAN", name="experiment-item-evaluation"),
        span("other root", None),
    ]
    assert ids(select_descendants(TASK, tree)) == ["agent", "answer", "deep"]


def test_an_evaluator_inside_of_the_task_is_a_judge_too() -> None:
    tree = [span("judge", "task", type="EVALUATOR"), span("its call", "judge"), span("own", "task")]
    assert ids(select_descendants(TASK, tree)) == ["own"]


def test_spans_that_name_each_other_as_parents_are_nobodys() -> None:
    assert select_descendants(TASK, [span("a", "b"), span("b", "a")]) == []
    assert split_calls(TASK, [span("a", "b", -1), span("b", "a", -1)]).own == []


def test_where_parents_are_not_known_the_time_tells_the_agent_from_the_judge() -> None:
    found = split_calls(
        TASK,
        [
            span("direct", "task", 5_000),  # its parent tells, whatever the time says
            span("nested", "unknown agent", 999),
            span("judge", "unknown evaluator", 1_001),
            span("before", "unknown", -1),
            span("loose", None, 10),
        ],
    )
    assert ids(found.own) == ["nested", "direct"]
    assert found.ambiguous == []


@pytest.mark.parametrize(("end", "start"), [(1_000, 1_000), (None, 500), (0, 0)])
def test_a_time_that_does_not_tell_leaves_a_call_unclear(end: int | None, start: int) -> None:
    found = split_calls(
        TaskSpan(id="task", trace_id="t-1", start=0, end=end), [span("call", "unknown", start)]
    )
    assert (found.own, ids(found.ambiguous)) == ([], ["call"])


def test_a_call_that_came_twice_counts_once() -> None:
    [once] = split_calls(TASK, [span("a", "task"), span("a", "task")]).own
    assert once.id == "a"


def test_sums_are_over_all_calls_of_models() -> None:
    calls = [
        span("a", "task", tags=("blue",)),
        span("e", "task", type="EMBEDDING", output_tokens=0, cost_usd=0.25),
        span("grep", "task", type="TOOL", input_tokens=None, output_tokens=None, cost_usd=None),
        span("ls", "task", type="TOOL", failed=True, end=None),
    ]
    # 10 + 10 tokens in, 2 + 0 out, 0.50 + 0.25 USD; tools cost nothing that is known.
    assert sum_usage(calls) == AgentUsage(
        input_tokens=20,
        output_tokens=2,
        cost_usd=0.75,
        tool_calls=(
            ToolCall(name="grep", ok=True, latency_ms=5.0),
            ToolCall(name="ls", ok=False, latency_ms=None),
        ),
        turns=1,
        tags=("blue",),
    )


def test_nothing_is_known_without_any_call_and_no_tool_is_known_with_one() -> None:
    assert sum_usage([]) == AgentUsage()
    assert sum_usage([span("a", "task")]).tool_calls == ()


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    priced, unpriced = span("a", "task"), span("b", "task", cost_usd=None)
    assert sum_usage([priced, unpriced]).cost_usd is None
    assert sum_usage([priced, unpriced]).input_tokens == 20


def test_a_call_that_failed_without_usage_used_nothing() -> None:
    broken = span("b", "task", failed=True, input_tokens=None, output_tokens=None, cost_usd=None)
    spent = sum_usage([span("a", "task"), broken])
    assert (spent.input_tokens, spent.output_tokens, spent.cost_usd) == (10, 2, 0.5)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input": 7, "output": 3}, (7, 3)),
        ({"input": 7, "output": 3, "total": 10}, (7, 3)),
        ({"input": 7, "input_cached_tokens": 5, "output": 3, "output_reasoning": 2}, (12, 5)),
        ({"promptTokens": 7, "completionTokens": 3}, (7, 3)),
        ({"total": 10}, (10, 0)),
        ({"output": 3, "total": 10}, (7, 3)),
        ({"input": 7, "total": 10}, (7, 3)),
        # Finer figures stand beside the plain ones, or are parts of them: the total tells.
        ({"input": 20, "input_cached_tokens": 80, "output": 9, "total": 109}, (100, 9)),
        ({"input": 100, "input_cached_tokens": 80, "output": 9, "total": 109}, (100, 9)),
        ({"input": 7, "output": 9, "output_reasoning": 5, "total": 16}, (7, 9)),
        ({}, (None, None)),
        ({"input": None, "output": "3"}, (None, None)),
    ],
)
def test_tokens_are_read_by_the_words_in_their_keys(
    usage: dict[str, Any], tokens: tuple[int | None, int | None]
) -> None:
    found = parse_span(row(usageDetails=usage))
    assert found is not None
    assert (found.input_tokens, found.output_tokens) == tokens


@pytest.mark.parametrize(
    ("fields", "cost"),
    [
        ({"totalCost": 0.5, "costDetails": {"total": 0.5}}, 0.5),
        ({"totalCost": 0, "costDetails": {}}, None),  # no price is known
        ({"totalCost": 0, "costDetails": {"total": 0}}, 0.0),  # and here it is: a free model
        ({"calculatedTotalCost": 0.25, "costDetails": {"input": 0.25}}, 0.25),
        ({"costDetails": {"input": 0.25, "output": 0.5}}, 0.75),
        ({"totalCost": None}, None),
    ],
)
def test_a_price_of_zero_without_details_is_no_price(
    fields: dict[str, Any], cost: float | None
) -> None:
    found = parse_span(row(**fields))
    assert found is not None
    assert found.cost_usd == cost


def test_a_row_without_an_id_or_a_start_is_no_span() -> None:
    assert parse_span(row(id="")) is None
    assert parse_span(row(startTime="yesterday")) is None
    assert parse_span(row()) is not None
