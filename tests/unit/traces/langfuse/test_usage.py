"""Assignment of calls to the agent, and the sums of their usage."""

from typing import Any

import pytest

from mosaico.traces.sources.langfuse.usage import (
    AgentUsage,
    ObservedSpan,
    TaskSpan,
    parse_span,
    select_descendants,
    split_calls,
    sum_usage,
)
from mosaico.traces.types import ToolCall

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
        "attributes": {},
        **more,
    }
    return ObservedSpan(**fields)


def row(**fields: Any) -> dict[str, Any]:
    return {"id": "a", "traceId": "t-1", "startTime": "2026-11-20T02:00:00.250Z", **fields}


def ids(spans: list[ObservedSpan]) -> list[str]:
    return [each_span.id for each_span in spans]


def test_select_descendants__excludes_judges_beside_the_task() -> None:
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


def test_select_descendants__excludes_evaluators_inside_the_task() -> None:
    tree = [span("judge", "task", type="EVALUATOR"), span("its call", "judge"), span("own", "task")]
    assert ids(select_descendants(TASK, tree)) == ["own"]


def test_select_descendants__parent_cycles_belong_to_no_task() -> None:
    assert select_descendants(TASK, [span("a", "b"), span("b", "a")]) == []
    assert split_calls(TASK, [span("a", "b", -1), span("b", "a", -1)]).own == []


def test_split_calls__unknown_parents_are_decided_by_start_time() -> None:
    split = split_calls(
        TASK,
        [
            span("direct", "task", 5_000),  # its parent decides, whatever its start time
            span("nested", "unknown agent", 999),
            span("judge", "unknown evaluator", 1_001),
            # Spans can come after a page was read: the parent may be one that is not there yet.
            span("before", "unknown", -1),
            span("loose", None, 10),
        ],
    )
    assert ids(split.own) == ["nested", "direct"]
    assert split.ambiguous == []


@pytest.mark.parametrize(("end", "start"), [(1_000, 1_000), (None, 500), (0, 0)])
def test_split_calls__undecidable_start_time_is_ambiguous(end: int | None, start: int) -> None:
    split = split_calls(
        TaskSpan(id="task", trace_id="t-1", start=0, end=end), [span("call", "unknown", start)]
    )
    assert (split.own, ids(split.ambiguous)) == ([], ["call"])


def test_split_calls__repeated_call_counts_once() -> None:
    [once] = split_calls(TASK, [span("a", "task"), span("a", "task")]).own
    assert once.id == "a"


def test_sum_usage__sums_all_model_calls() -> None:
    calls = [
        span("a", "task", tags=("blue",)),
        span("e", "task", type="EMBEDDING", output_tokens=0, cost_usd=0.25),
        span("grep", "task", type="TOOL", input_tokens=None, output_tokens=None, cost_usd=None),
        span("ls", "task", type="TOOL", failed=True, end=None),
    ]
    # 10 + 10 input tokens, 2 + 0 output tokens, 0.50 + 0.25 USD; the cost of tools is unknown.
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


def test_sum_usage__without_calls_everything_is_unknown() -> None:
    assert sum_usage([]) == AgentUsage()
    assert sum_usage([span("a", "task")]).tool_calls == ()


def test_sum_usage__unknown_part_makes_the_sum_unknown() -> None:
    priced, unpriced = span("a", "task"), span("b", "task", cost_usd=None)
    assert sum_usage([priced, unpriced]).cost_usd is None
    assert sum_usage([priced, unpriced]).input_tokens == 20


def test_sum_usage__failed_call_without_usage_counts_as_zero() -> None:
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
        # Some SDKs send the total alone, as embeddings have no output.
        ({"total": 10}, (10, 0)),
        ({"output": 3, "total": 10}, (7, 3)),
        ({"input": 7, "total": 10}, (7, 3)),
        # The total decides whether finer counts are part of the plain counts.
        ({"input": 20, "input_cached_tokens": 80, "output": 9, "total": 109}, (100, 9)),
        ({"input": 100, "input_cached_tokens": 80, "output": 9, "total": 109}, (100, 9)),
        ({"input": 7, "output": 9, "output_reasoning": 5, "total": 16}, (7, 9)),
        ({}, (None, None)),
        ({"input": None, "output": "three"}, (None, None)),
        # Some writers send numbers as texts.
        ({"input": "30", "output": "9"}, (30, 9)),
    ],
)
def test_parse_span__token_counts_match_by_key_words(
    usage: dict[str, Any], tokens: tuple[int | None, int | None]
) -> None:
    parsed_span = parse_span(row(usageDetails=usage))
    assert parsed_span is not None
    assert (parsed_span.input_tokens, parsed_span.output_tokens) == tokens


@pytest.mark.parametrize(
    ("fields", "cost"),
    [
        ({"totalCost": 0.5, "costDetails": {"total": 0.5}}, 0.5),
        ({"totalCost": 0, "costDetails": {}}, None),  # no price is known
        ({"totalCost": 0, "costDetails": {"total": 0}}, 0.0),  # a free model
        ({"calculatedTotalCost": 0.25, "costDetails": {"input": 0.25}}, 0.25),
        ({"costDetails": {"input": 0.25, "output": 0.5}}, 0.75),
        ({"totalCost": None}, None),
        ({"costDetails": {"note": "free"}}, None),
    ],
)
def test_parse_span__zero_cost_without_details_is_unknown(
    fields: dict[str, Any], cost: float | None
) -> None:
    parsed_span = parse_span(row(**fields))
    assert parsed_span is not None
    assert parsed_span.cost_usd == cost


def test_parse_span__row_without_id_or_start_is_none() -> None:
    assert parse_span(row(id="")) is None
    assert parse_span(row(startTime="yesterday")) is None
    assert parse_span(row()) is not None
