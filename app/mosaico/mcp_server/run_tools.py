"""The tools about runs: compare two, show a trace, and start one."""

import json
from collections.abc import Sequence
from typing import Final

from mosaico.comparison.schemas import Comparison, FlippedItem
from mosaico.core.console.api_responses import parse_response
from mosaico.core.web.page_paths import (
    comparison_page_path,
    path_of,
    run_page_path,
)
from mosaico.harness.transcript import TranscriptToolCall
from mosaico.mcp_server.answer_parts import (
    MAX_DIFFERENCES,
    MAX_VALUES,
    changed_value,
    cut_list,
    differences_of,
    run_line,
    trace_page,
    worst_first,
)
from mosaico.mcp_server.answers import (
    ChangedValue,
    FlippedLine,
    NamedNumber,
    RunComparisonAnswer,
    ShownTrace,
    StartedRun,
    ToolUse,
)
from mosaico.mcp_server.arguments import (
    CompareRunsArguments,
    ShowTraceArguments,
    StartRunArguments,
)
from mosaico.mcp_server.envelope import TEXT_CHARS, enclose, enclose_text
from mosaico.mcp_server.lookup import (
    ServiceView,
    ToolRefusal,
    UnknownName,
    find_agent,
    find_benchmark,
    find_owners,
    find_run,
)
from mosaico.runs.schemas import RunView, TraceResultView, TraceView

_MAX_TOOL_CALLS: Final = 20
_MAX_TRACE_VALUES: Final = 20
_EXPECTED_ANSWERS: Final = 5
_MAX_TAGS: Final = 10
_TOOL_CHARS: Final = 300


def compare_runs(view: ServiceView, arguments: CompareRunsArguments) -> RunComparisonAnswer:
    """The comparison of two runs, as the page has it."""
    owners = find_owners(view, arguments.agent, arguments.benchmark)
    baseline = find_run(view, arguments.baseline, owners)
    candidate = find_run(view, arguments.candidate, owners)
    compared = view.client.compare(baseline.id, candidate.id)
    comparison = compared.comparison
    notices: list[str] = []
    flips = comparison.flipped_items
    items = cut_list(
        flips.items if flips else [], arguments.items, notices, "items: pass a larger `items`"
    )
    return RunComparisonAnswer(
        summary=enclose(compared.headline, TEXT_CHARS),
        page=view.page(comparison_page_path([baseline.id], candidate.id)),
        verdict=str(compared.verdict),
        baseline_run=baseline.id,
        candidate_run=candidate.id,
        explanation=enclose(comparison.verdict.explanation, 2 * TEXT_CHARS),
        decides=cut_list(
            _judged(comparison), MAX_VALUES, notices, "KPIs or metrics: the page has them"
        ),
        usage=[changed_value(usage.metric, usage.verdict) for usage in comparison.usage],
        what_changed=cut_list(
            differences_of(comparison.what_changed), MAX_DIFFERENCES, notices,
            "differences: the page has them",
        ),
        more_frequent_in_fallen_items=[
            enclose(feature.feature) for feature in comparison.enriched_features[:MAX_DIFFERENCES]
        ],
        fell=flips.regressions if flips else 0,
        rose=flips.improvements if flips else 0,
        items=[_flipped_line(view, candidate, item) for item in items],
        notices=notices,
    )  # fmt: skip


def _judged(comparison: Comparison) -> list[ChangedValue]:
    """The KPIs and metrics that decide, those with a regression first."""
    judged = set(comparison.judged)
    values = [
        changed_value(kpi.name, kpi.verdict, gate=kpi.gate)
        for kpi in comparison.kpis
        if judged & {kpi.kpi_id, kpi.name}
    ]
    values += [
        changed_value(metric.metric, metric.verdict)
        for metric in comparison.metrics
        if metric.metric in judged
    ]
    return worst_first(values)


def _flipped_line(view: ServiceView, candidate: RunView, item: FlippedItem) -> FlippedLine:
    trace_ids = [trace.trace_id for trace in item.traces if trace.side == "candidate"]
    return FlippedLine(
        item=enclose(item.item_id),
        before=item.baseline,
        after=item.candidate,
        cause=str(item.cause) if item.cause else None,
        page=trace_page(view, candidate.id, trace_ids[0]) if trace_ids else None,
    )


def show_trace(view: ServiceView, arguments: ShowTraceArguments) -> ShownTrace:
    """A trace of a run, with what the agent did."""
    if (arguments.item is None) == (arguments.trace is None):
        raise ToolRefusal("pass either `item` or `trace`, as `why` shows them")
    owners = find_owners(view, arguments.agent, arguments.benchmark)
    run = find_run(view, arguments.run, owners)
    notices: list[str] = []
    trace_id = arguments.trace or _trace_of_item(view, run, arguments.item or "", notices)
    path = path_of("benchmark-runs", run.id, "traces", trace_id)
    trace = parse_response(TraceView, view.client.get(path))
    values = [
        NamedNumber(name=enclose(name), value=value) for name, value in sorted(trace.values.items())
    ]
    return ShownTrace(
        summary=f"The answer to {enclose(trace.item_id)} is {_describe_outcome(trace)}.",
        page=trace_page(view, run.id, trace.trace_id),
        run=run.id,
        item=enclose(trace.item_id),
        trial=trace.trial,
        trace=enclose(trace.trace_id),
        outcome=str(trace.outcome),
        is_right=trace.is_right,
        question=enclose_text(trace.input, 3 * TEXT_CHARS),
        expected=[enclose(text, TEXT_CHARS) for text in _expected(trace)],
        answer=enclose_text(trace.output, 3 * TEXT_CHARS),
        error=enclose_text(trace.error),
        values=cut_list(values, _MAX_TRACE_VALUES, notices, "values: the page has them"),
        judge_says=[
            enclose(f"{metric}: {reason}", TEXT_CHARS)
            for metric, reason in list(trace.reasons.items())[:MAX_DIFFERENCES]
        ],
        tools=cut_list(
            _tool_uses(trace), _MAX_TOOL_CALLS, notices, "tool calls: the page has them"
        ),
        tags=[enclose(tag) for tag in trace.tags[:_MAX_TAGS]],
        latency_ms=trace.latency_ms,
        cost_usd=trace.cost_usd,
        notices=notices,
    )


def _trace_of_item(view: ServiceView, run: RunView, item: str, notices: list[str]) -> str:
    """The ID of the first trace of an item; a notice says how many trials it has."""
    path = f"{path_of('benchmark-runs', run.id)}/results"
    page = view.client.get(path, itemId=item, limit=50)
    traces = [parse_response(TraceResultView, document) for document in page["items"]]
    if not traces:
        raise UnknownName(
            f"the run {run.id} has no item {enclose(item)}; `why` shows the IDs of its worst items"
        )
    wrong = [trace for trace in traces if trace.is_right is False]
    shown = (wrong or traces)[0]
    if len(traces) > 1:
        others = ", ".join(enclose(trace.trace_id) for trace in traces[:10] if trace is not shown)
        notices.append(
            f"the item has {len(traces)} trials, of which a {'wrong' if wrong else 'first'} one is shown; the others are the"
            f" traces {others}"
        )
    return shown.trace_id


def _describe_outcome(trace: TraceView) -> str:
    if trace.is_right is None:
        return f"{trace.outcome}; nothing says whether it is right"
    return f"{'right' if trace.is_right else 'wrong'} ({trace.outcome})"


def _expected(trace: TraceView) -> Sequence[str]:
    several = trace.expected_any or trace.expected_all
    single = [] if trace.expected_output is None else [trace.expected_output]
    return (several or single)[:_EXPECTED_ANSWERS]


def _tool_uses(trace: TraceView) -> list[ToolUse]:
    """The tool calls with their results where the source has a transcript."""
    steps = trace.transcript.steps if trace.transcript else ()
    calls = [step for step in steps if isinstance(step, TranscriptToolCall)]
    if calls:
        return [
            ToolUse(
                tool=enclose(call.tool),
                ok=not call.is_error,
                arguments=_arguments_text(call.arguments),
                output=enclose_text(call.output, _TOOL_CHARS),
                ms=call.duration_ms,
            )
            for call in calls
        ]
    return [
        ToolUse(
            tool=enclose(call.name),
            ok=call.ok,
            arguments=_arguments_text(call.arguments),
            ms=call.latency_ms,
        )
        for call in trace.tool_calls or ()
    ]


def _arguments_text(arguments: object) -> str | None:
    return (
        None
        if arguments is None
        else enclose(json.dumps(arguments, ensure_ascii=False), _TOOL_CHARS)
    )


def start_run(view: ServiceView, arguments: StartRunArguments) -> StartedRun:
    """Start a run in the background."""
    benchmark = find_benchmark(view, arguments.benchmark)
    agent = find_agent(view, arguments.agent)
    run = view.client.start_run(benchmark.id, agent.id, run_name=arguments.run_name)
    return StartedRun(
        summary="The run has started. `why` with its ID explains its result when it has ended.",
        page=view.page(run_page_path(run.id)),
        run=run_line(view, run),
    )
