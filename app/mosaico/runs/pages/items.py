"""The page of an item: over all nights for each agent, and its answers of two nights side by side."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

from fastapi import Path, Query, Request, Response
from sqlalchemy.orm import Session

from mosaico.access.deps import READ, get_caller
from mosaico.agents.queries import add_agent_names
from mosaico.annotations.queries import list_shown_annotations
from mosaico.comparison.deciding_metric import NOTHING_DECIDES, find_deciding_metric
from mosaico.comparison.run_answers import TooManyAnswers
from mosaico.core.web.deps import Res
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.page_text import format_instant
from mosaico.core.web.pages import build_url, reader_zone, render_page, see_other
from mosaico.core.web.routes import Router
from mosaico.notes.queries import list_shown_notes
from mosaico.run_store import trace_list
from mosaico.run_store.deciding_metric import DecidingMetric, is_right_answer
from mosaico.run_store.item_nights import ItemNight, list_item_nights
from mosaico.run_store.models import BenchmarkRun, TraceResult
from mosaico.run_store.plan_differences import describe_changes
from mosaico.run_store.queries import get_run_with_traces
from mosaico.runs.pages.answers import Typed, TypedAnswers, select_answers
from mosaico.runs.pages.item_strip import ItemStrip, build_strip, find_fall
from mosaico.runs.pages.trace_parts import (
    compare_attributes,
    list_calls,
    list_references,
    list_usage,
    list_values,
    mark_output,
)
from mosaico.runs.pages.trace_texts import cut_text
from mosaico.runs.pages.traces import MAX_METRICS, list_crumbs, safe_url
from mosaico.traces.models import CollectedTrace
from mosaico.traces.queries import find_transcript

router = Router()

TRIALS_OF_PAGE = 6

RunId = Annotated[str, Path(alias="runId")]
OtherRunId = Annotated[str, Query(max_length=200)]


class Neighbors(NamedTuple):
    """The items before and after one in the list that a reader came from; `place` is its number, `total` theirs."""

    before: str | None
    after: str | None
    place: int
    total: int


@router.get("/runs/{runId}/items", dependencies=READ)
def show_item(
    request: Request,
    run_id: RunId,
    res: Res,
    item: Annotated[str, Query(max_length=1000)],
    typed: Typed,
    base: OtherRunId = "",
    chosen: Annotated[str, Query(alias="run", max_length=200)] = "",
    first_trial: Annotated[int, Query(alias="trial", ge=1)] = 1,
) -> Response:
    """An item over all nights, and its trials in two runs side by side: A is `base`, without it the baseline of the run;
    B is the run. `run` chooses another B. The list that a reader came from is that of the filter of answers.
    """
    kept = {"item": item, **typed.parameters}
    if chosen:
        return see_other(build_url(path_of("runs", chosen, "items"), kept, base=base))
    with res.db.read() as session:
        run = get_run_with_traces(session, run_id)
        decider = find_deciding_metric(session, run)
        nights = list_item_nights(session, run, item, decider.column if decider else None)
        base_id = base or _default_base(run, nights)
        baseline = get_run_with_traces(session, base_id) if base_id else None
        sides = [side for side in (baseline, run) if side]
        trials = _load_trials(session, baseline, run, item, first_trial, decider)
        neighbors = _find_neighbors(session, run, item, typed)
        steps = list_crumbs(session, run)
        notes = list_shown_notes(
            session, get_caller(request), item_id=item, benchmark_id=run.benchmark_id
        )
        annotated = list_shown_annotations(session, item_id=item, benchmark_id=[run.benchmark_id])
        agent_ids = {*(side.agent_id for side in sides), *(night.agent_id for night in nights)}
        names = add_agent_names(session, {}, agent_ids)
    shown_nights = _ShownNights(nights, decider, names, reader_zone(request), base_id or "", kept)
    path = path_of("runs", run_id, "items")
    return render_page(
        request,
        "item.html",
        title=item,
        nav="/runs",
        api=build_url(f"/benchmark-runs{path_of(run_id)}/results", itemId=item),
        api_parts=_parts_in_api(run, base_id, item),
        run=run,
        baseline=baseline,
        base_id=base_id,
        steps=steps,
        item=item,
        notes=notes,
        annotated=annotated,
        kept=kept,
        shown_metrics=MAX_METRICS,
        rule=f"right or wrong by {decider.column}" if decider else NOTHING_DECIDES,
        agent=names.get(run.agent_id, run.agent_id),
        # Named where they differ.
        other_agents=[names.get(side.agent_id, side.agent_id) for side in sides]
        if len({side.agent_id for side in sides}) > 1
        else ("", ""),
        strip=shown_nights.strip(run),
        choices=shown_nights.list_choices(sides, res.clock()),
        fall_url=shown_nights.find_fall_url(run),
        neighbors=neighbors,
        neighbor_url=lambda other: build_url(path, {**kept, "item": other}, base=base),
        list_url=build_url(path_of("runs", run.id), typed.parameters) + "#answers",
        plan_changes=describe_changes(baseline.plan, run.plan)
        if baseline and baseline.plan and run.plan
        else (),
        **trials,
    )


def _load_trials(
    session: Session,
    baseline: BenchmarkRun | None,
    run: BenchmarkRun,
    item: str,
    first_trial: int,
    decider: DecidingMetric | None,
) -> dict[str, Any]:
    """A page of the trials of an item in both runs, with its question and its expected answers."""
    sides = [side for side in (baseline, run) if side]
    numbers = trace_list.list_trials_of_item(session, sides, item)
    later = [number for number in numbers if number + 1 >= first_trial]
    page_numbers, more = later[:TRIALS_OF_PAGE], later[TRIALS_OF_PAGE:]
    traces = [trace_list.get_traces_of_item(session, side, item, page_numbers) for side in sides]
    first = next((trace for side in traces for trace, _ in side.values()), None)
    return {
        "input": cut_text(first.input if first else None),
        "references": list_references(first),
        "trials": [
            _trial(session, baseline, run, number, traces, decider) for number in page_numbers
        ],
        "trial_count": len(numbers),
        "next_trial": more[0] + 1 if more else None,
    }


class _ShownNights(NamedTuple):
    """The nights of an item for each agent; `names` are those of the agents, `base_id` is A, and `kept` the parameters
    of an address.
    """

    nights: Sequence[ItemNight]
    decider: DecidingMetric | None
    names: Mapping[str, str]
    zone: ZoneInfo
    base_id: str
    kept: Mapping[str, str]

    def strip(self, run: BenchmarkRun) -> ItemStrip:
        """Right or wrong on each night; the run is B."""

        def url_of(night: ItemNight) -> str:
            # A night that is chosen becomes B, and A stays.
            path = path_of("runs", night.run_id, "items")
            return build_url(path, self.kept, base=self.base_id)

        chosen = (self.base_id, run.id)
        return build_strip(
            self.nights, self.decider, self.names, self.zone, chosen, run.agent_id, url_of
        )

    def find_fall_url(self, run: BenchmarkRun) -> str | None:
        """The page of the last right night beside the first wrong one; None without such nights."""
        fall = find_fall(self.nights, self.decider, run.agent_id)
        if fall is None:
            return None
        before, now = fall
        return build_url(path_of("runs", now.run_id, "items"), self.kept, base=before.run_id)

    def list_choices(self, sides: Sequence[BenchmarkRun], now: datetime) -> list[tuple[str, str]]:
        """What A and B can be: run IDs with their times, agents, and whether the answer was right."""
        words = {True: "right", False: "wrong", None: "neither right nor wrong"}
        choices = {
            night.run_id: f"{self._name(night, now)} · {words[night.is_right(self.decider)]}"
            for night in reversed(self.nights)
            if night.traces
        }
        for side in sides:
            choices.setdefault(side.id, self._name(side, now))
        return list(choices.items())

    def _name(self, night: ItemNight | BenchmarkRun, now: datetime) -> str:
        agent = self.names.get(night.agent_id, night.agent_id)
        return f"{format_instant(night.created_at, self.zone, now)} · {agent}"


def _parts_in_api(run: BenchmarkRun, base_id: str | None, item: str) -> dict[str, str]:
    parts = {
        "nights": build_url(f"/benchmark-runs{path_of(run.id)}/nights", itemId=item),
        "run": path_of("benchmark-runs", run.id),
        "notes": build_url("/notes", benchmarkId=run.benchmark_id, itemId=item),
        "annotations": build_url("/annotations", benchmarkId=run.benchmark_id, itemId=item),
    }
    if base_id:
        base = path_of("benchmark-runs", base_id)
        parts |= {
            "baseline": base,
            "results of the baseline": build_url(f"{base}/results", itemId=item),
        }
    return parts


def _default_base(run: BenchmarkRun, nights: Sequence[ItemNight]) -> str | None:
    """The baseline of the run if it has the item, otherwise the night of its agent before; None without any."""
    own = [night.run_id for night in nights if night.agent_id == run.agent_id and night.traces]
    baseline = run.verdict.baseline.run_ids[0] if run.verdict and run.verdict.baseline else None
    if baseline in own:
        return baseline
    earlier = own[: own.index(run.id)] if run.id in own else own
    return earlier[-1] if earlier else None


def _find_neighbors(
    session: Session, run: BenchmarkRun, item_id: str, typed: TypedAnswers
) -> Neighbors | None:
    """The neighbors of an item in a list of answers; None for a reader of no list, or of another one."""
    if typed.show is None:
        return None
    try:
        ids = [item.item_id for item in select_answers(session, run, typed).selected]
    except TooManyAnswers:
        return None
    if item_id not in ids:
        return None
    place = ids.index(item_id)
    after = ids[place + 1] if place + 1 < len(ids) else None
    return Neighbors(ids[place - 1] if place else None, after, place + 1, len(ids))


def _trial(
    session: Session,
    baseline: BenchmarkRun | None,
    run: BenchmarkRun,
    number: int,
    traces: Sequence[dict[int, tuple[CollectedTrace, TraceResult | None]]],
    decider: DecidingMetric | None,
) -> dict[str, Any]:
    """One trial in both runs; a side is None where the run has no trial of this number."""
    *before, now = [side.get(number) for side in traces]
    earlier = before[0] if before else None
    changes, same = compare_attributes(earlier[0], now[0]) if earlier and now else ([], [])
    return {
        "number": number,
        "before": _side(session, baseline, earlier, decider) if baseline else None,
        "now": _side(session, run, now, decider),
        "changes": changes,
        "same": same,
    }


def _side(
    session: Session,
    run: BenchmarkRun,
    measured: tuple[CollectedTrace, TraceResult | None] | None,
    decider: DecidingMetric | None,
) -> dict[str, Any] | None:
    if measured is None:
        return None
    trace, result = measured
    right = is_right_answer(run.metric_keys or [], result, decider)
    return {
        "trace": trace,
        "is_right": right,
        "answer": mark_output(trace, is_right=right),
        "error": cut_text(trace.error),
        "values": list_values(run.metric_keys or [], result),
        "usage": list_usage(trace),
        "calls": list_calls(trace, find_transcript(session, trace.collection_id, trace.position)),
        "url": path_of("runs", run.id, "traces", trace.trace_id),
        "source_url": safe_url(trace.url),
    }
