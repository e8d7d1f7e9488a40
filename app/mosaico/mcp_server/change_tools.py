"""The tools about changes for the worse: what got worse, and why."""

from typing import Final

from mosaico.comparison.answer_schemas import AnswerPage, RunAnswerView
from mosaico.core.console.api_responses import JSON, parse_response
from mosaico.core.errors import AppError
from mosaico.core.text import count_noun
from mosaico.core.web.page_paths import (
    comparison_page_path,
    path_of,
    run_page_path,
)
from mosaico.mcp_server.answer_parts import (
    MAX_DIFFERENCES,
    MAX_VALUES,
    changed_value,
    cut_list,
    deciding_kpis,
    differences_of,
    note_more,
    run_line,
    trace_page,
)
from mosaico.mcp_server.answers import (
    ChangedValue,
    CountedText,
    FallenItemAnswers,
    WhatGotWorse,
    Why,
    WorseChange,
)
from mosaico.mcp_server.arguments import WhatGotWorseArguments, WhyArguments
from mosaico.mcp_server.envelope import TEXT_CHARS, enclose, enclose_text
from mosaico.mcp_server.lookup import RunOwners, ServiceView, find_owners, find_run
from mosaico.notes.schemas import NoteView
from mosaico.overview.change_schemas import ChangedKpi, ChangeView
from mosaico.overview.changes import ChangeGroup
from mosaico.overview.schemas import Overview, StaleAgent
from mosaico.run_store.recorded_attributes import RunRecord
from mosaico.run_store.rules import RunStatus
from mosaico.runs.schemas import RunErrorView, RunView

_GOING_ON: Final = (ChangeGroup.NEW, ChangeGroup.ONGOING)
_EXPECTED_ANSWERS: Final = 2
_ITEM_CHARS: Final = 400
_MAX_COUNTS: Final = 6
_MAX_NOTES: Final = 5
_MAX_LINES: Final = 3


def what_got_worse(view: ServiceView, arguments: WhatGotWorseArguments) -> WhatGotWorse:
    """What the page Morning has in its first two groups."""
    owners = find_owners(view, arguments.agent, arguments.benchmark)
    overview = parse_response(Overview, view.client.get("/overview", hours=arguments.hours))
    changes = [
        change
        for change in overview.changes
        if change.group in _GOING_ON and _is_of(change, owners)
    ]
    notices = _overview_notices(overview, owners)
    shown = cut_list(changes, arguments.limit, notices, "changes: pass a larger `limit`")
    return WhatGotWorse(
        summary=_summarize(changes, arguments.hours),
        page=view.page("/"),
        notices=notices,
        changes=[_worse_change(view, change) for change in shown],
    )


def _is_of(change: ChangeView | StaleAgent, owners: RunOwners) -> bool:
    pairs = ((owners.agent, change.agent_id), (owners.benchmark, change.benchmark_id))
    return all(owner is None or owner.id == owner_id for owner, owner_id in pairs)


def _summarize(changes: list[ChangeView], hours: int) -> str:
    if not changes:
        return f"Nothing got worse in the last {hours} h, and nothing worse goes on."
    new = sum(change.group is ChangeGroup.NEW for change in changes)
    return (
        f"{count_noun(new, 'change')} for the worse in the last {hours} h,"
        f" {len(changes) - new} from before that go on. `why` with the run of a change explains it."
    )


def _overview_notices(overview: Overview, owners: RunOwners) -> list[str]:
    notices: list[str] = []
    note_more(
        overview.change_count - len(overview.changes), notices, "changes: the page has them all"
    )
    stale = [agent for agent in overview.stale if _is_of(agent, owners)]
    notices += [
        f"{enclose(agent.agent_name)} has had no new data on {enclose(agent.benchmark_name)} since"
        f" {agent.since:%Y-%m-%d}: its quality is not known now"
        for agent in stale[:_MAX_LINES]
    ]
    note_more(len(stale) - _MAX_LINES, notices, "agents without new data: the page has them all")
    if overview.missed_fires:
        notices.append(
            f"{overview.missed_fires} due times of schedules started no run: the page names them"
        )
    if overview.active_count:
        notices.append(f"{count_noun(overview.active_count, 'run')} still in progress")
    return notices


def _worse_change(view: ServiceView, change: ChangeView) -> WorseChange:
    differences = differences_of(change.what_changed) if change.what_changed else []
    return WorseChange(
        outcome=str(change.outcome),
        group=str(change.group),
        agent=enclose(change.agent_name),
        agent_id=change.agent_id,
        benchmark=enclose(change.benchmark_name),
        benchmark_id=change.benchmark_id,
        run=change.run_id,
        since=change.since.isoformat(timespec="seconds"),
        runs=change.runs,
        kpi=_changed_kpi(change.kpi) if change.kpi else None,
        what_changed=[difference.difference for difference in differences[:_MAX_LINES]],
        explanation=enclose(change.explanation, _ITEM_CHARS),
        page=view.page(run_page_path(change.run_id)),
    )


def _changed_kpi(kpi: ChangedKpi) -> ChangedValue:
    verdict = str(kpi.verdict) if kpi.verdict else None
    unit = enclose(kpi.unit) if kpi.unit else None
    if not kpi.comparisons:
        return ChangedValue(
            name=enclose(kpi.name), verdict=verdict, gate=kpi.gate, after=kpi.value, unit=unit
        )
    first = kpi.comparisons[0]
    return ChangedValue(
        name=enclose(kpi.name),
        verdict=verdict,
        gate=kpi.gate,
        before=first.baseline_value,
        after=first.value,
        change=first.effect,
        low=first.low,
        high=first.high,
        scale=str(first.scale) if first.scale else None,
        unit=unit,
    )


def why(view: ServiceView, arguments: WhyArguments) -> Why:
    """The verdict of a run, and what explains it."""
    owners = find_owners(view, arguments.agent, arguments.benchmark)
    run = find_run(view, arguments.run, owners)
    notices: list[str] = []
    people_say = _notes_about(view, run, notices)
    if run.status is not RunStatus.COMPLETED:
        return _why_without_result(view, run, people_say)
    answers = _worst_answers(view, run, arguments.items, notices)
    changed = parse_response(RunRecord, _get(view, run, "/attributes")).what_changed
    verdict = run.verdict
    baseline = next(iter(verdict.baseline.run_ids), None) if verdict and verdict.baseline else None
    if changed and not changed.has_attributes:
        notices.append(
            "the traces record nothing that could have changed; record the model and the version of the prompt"
        )
    differences = differences_of(changed) if changed else []
    return Why(
        summary=_summarize_run(run),
        page=view.page(run_page_path(run.id)),
        run=run_line(view, run),
        baseline_run=baseline,
        comparison_page=view.page(comparison_page_path([baseline], run.id)) if baseline else None,
        explanation=enclose(verdict.explanation, 2 * TEXT_CHARS) if verdict else None,
        decides=_deciding_values(view, run, notices),
        what_changed=cut_list(
            differences, MAX_DIFFERENCES, notices, "differences: `comparisonPage` has them"
        ),
        went_wrong=_counts(answers),
        errors=_errors(view, run),
        items=[_item_answers(view, run, item) for item in answers.items] if answers else [],
        people_say=people_say,
        notices=notices,
    )


def _summarize_run(run: RunView) -> str:
    verdict = run.verdict
    if verdict is None or verdict.verdict is None:
        reason = enclose(verdict.reason, TEXT_CHARS) if verdict and verdict.reason else "no verdict"
        return f"The run was not compared: {reason}"
    validity = f", {run.validity}" if run.validity else ""
    return f"The run is {verdict.verdict}{validity}; `decides` are the KPIs or metrics that say so."


def _why_without_result(view: ServiceView, run: RunView, people_say: list[str]) -> Why:
    code = f" ({enclose(run.error_code)})" if run.error_code else ""
    return Why(
        summary=f"The run is {run.status}{code}, and has no result.",
        page=view.page(run_page_path(run.id)),
        run=run_line(view, run),
        explanation=enclose_text(run.error_message),
        people_say=people_say,
    )


def _get(view: ServiceView, run: RunView, path: str) -> JSON:
    return view.client.get(f"{path_of('benchmark-runs', run.id)}{path}")


def _worst_answers(
    view: ServiceView, run: RunView, limit: int, notices: list[str]
) -> AnswerPage | None:
    """The items that fell, the worst first; None with a notice where the service cannot show them."""
    path = f"{path_of('benchmark-runs', run.id)}/answers"
    try:
        page = parse_response(AnswerPage, view.client.get(path, show="fell", limit=limit))
    except AppError as error:
        # Purged traces, or too many of them: the verdict stands without its answers.
        notices.append(f"the answers are not shown: {enclose(error.detail, TEXT_CHARS)}")
        return None
    note_more(
        page.counts.fell - len(page.items), notices, "items fell: pass a larger `items`, up to 10"
    )
    return page


def _counts(answers: AnswerPage | None) -> list[CountedText]:
    failures = answers.failures if answers else []
    return [
        CountedText(text=enclose(failure.name), count=failure.items)
        for failure in failures[:_MAX_COUNTS]
    ]


def _errors(view: ServiceView, run: RunView) -> list[CountedText]:
    """The errors of the answers with an example each; empty for a run whose traces are gone."""
    if run.purged_at is not None:
        return []
    errors = [parse_response(RunErrorView, item) for item in _get(view, run, "/errors")["items"]]
    return [
        CountedText(
            text=enclose(f"{error.outcome}: {error.example}", TEXT_CHARS), count=error.count
        )
        for error in errors[:_MAX_COUNTS]
    ]


def _deciding_values(view: ServiceView, run: RunView, notices: list[str]) -> list[ChangedValue]:
    kpis = view.client.kpis(run.id)
    if kpis:
        values = deciding_kpis(kpis)
    else:
        values = [
            changed_value(metric.metric, metric.verdict)
            for metric in view.client.metrics(run.id)
            if metric.verdict and metric.verdict.verdict
        ]
    return cut_list(values, MAX_VALUES, notices, "KPIs or metrics: the page has them")


def _item_answers(view: ServiceView, run: RunView, item: RunAnswerView) -> FallenItemAnswers:
    expected = item.expected_any or item.expected_all
    if not expected and item.expected_output is not None:
        expected = [item.expected_output]
    return FallenItemAnswers(
        item=enclose(item.item_id),
        trace=enclose(item.now.trace_id),
        question=enclose_text(item.input, _ITEM_CHARS),
        expected=[enclose(text, _ITEM_CHARS) for text in expected[:_EXPECTED_ANSWERS]],
        before=enclose_text(item.before.output if item.before else None, _ITEM_CHARS),
        now=enclose_text(item.now.output, _ITEM_CHARS),
        error=enclose_text(item.now.error, _ITEM_CHARS),
        went_wrong=[enclose(failure) for failure in item.failures[:_MAX_COUNTS]],
        change=item.change,
        page=trace_page(view, run.id, item.now.trace_id),
    )


def _notes_about(view: ServiceView, run: RunView, notices: list[str]) -> list[str]:
    page = view.client.get("/notes", runId=run.id, limit=_MAX_NOTES)
    if page["nextCursor"] is not None:
        notices.append("more notes: the page has them")
    notes = [parse_response(NoteView, item) for item in page["items"]]
    return [
        f"{enclose(note.created_by_name or note.created_by)}: {enclose(note.text, TEXT_CHARS)}"
        for note in notes
    ]
