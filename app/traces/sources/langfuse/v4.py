"""The fourth generation of the API: experiments, their rows, and observations by experiment."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

from app.core.http.throttle import IN_FLIGHT
from app.traces.sources.langfuse.client import Client, Parameters, meta_of, rows_of
from app.traces.sources.langfuse.errors import AskForLess, BadResponse, NotThere
from app.traces.sources.langfuse.mapping import task_of, trace_of_row
from app.traces.sources.langfuse.payload import (
    JSON,
    moment,
    number_of,
    required_text,
    text_of,
    time_of,
)
from app.traces.sources.langfuse.reader import Dataset, FoundRun, Link, OtherGeneration, ReadPage
from app.traces.sources.langfuse.scores import by_trace
from app.traces.sources.langfuse.time_windows import (
    Fetched,
    Pace,
    Part,
    RowPage,
    in_smaller_parts,
    newest_first,
)
from app.traces.sources.langfuse.usage import (
    CALL_TYPES,
    Span,
    Task,
    below,
    sort_calls,
    span_of,
    spending_of,
)
from app.traces.types import Trace

ROWS: Final = 100
CALLS: Final = 1000
ROW_SCORES: Final = 50
NAMES_SHOWN: Final = 10

# Below this a run is one chain of pages: stretches of time would only add requests.
SPLIT_FROM: Final = 1000
ROWS_AIMED_AT: Final = 80
CALLS_PER_ROW: Final = 2
CALLS_AHEAD: Final = 2

# The API wants a lower bound; nothing in Langfuse is older than Langfuse.
BEGINNING_MS: Final = 1_577_836_800_000  # 2020-01-01
DAY_MS: Final = 86_400_000
SHORTER_DAYS: Final = (365, 90, 14)


class _Condition(NamedTuple):
    column: str
    values: Sequence[str]

    def document(self) -> JSON:
        """Equality is the one form in which a value may hold any character."""
        if len(self.values) == 1:
            return {
                "type": "string",
                "column": self.column,
                "operator": "=",
                "value": self.values[0],
            }
        return {
            "type": "stringOptions",
            "column": self.column,
            "operator": "any of",
            "value": list(self.values),
        }


# Servers order what began in the same minute as they like.
ORDER_SLACK_MS: Final = 60_000


class Calls:
    """Calls of traces whose rows have not come yet; `end` is when the newest may have begun.

    Both come newest first, and a call begins after its task has: once all calls are read that
    began since a row did, all of that row's are there.
    """

    def __init__(self, pages: Iterator[RowPage], *, start: int, end: int) -> None:
        self._pages = pages
        self._start = start
        self._reached = end
        self._waiting = defaultdict[str, list[Span]](list)

    def read_since(self, moment: int) -> None:
        """Read on until every call that began at `moment` or later is there.

        Raises: `BadResponse` when the server goes in a circle: no count tells what is missing.
        """
        while self._reached > moment - ORDER_SLACK_MS:
            page = next(self._pages, None)
            if page is None:
                self._reached = self._start - ORDER_SLACK_MS
                return
            self._keep(page)

    def take(self, trace_id: str) -> list[Span]:
        """The calls of a trace, which are forgotten here."""
        return self._waiting.pop(trace_id, [])

    @property
    def resume_before(self) -> int:
        """The calls that rows to come may need began before this time."""
        # A dictionary keeps its order: the first that waits is the newest.
        newest = next((spans[0].start for spans in self._waiting.values()), self._reached)
        return max(newest, self._reached) + ORDER_SLACK_MS

    def _keep(self, page: RowPage) -> None:
        if page.circled:
            raise BadResponse(
                "Langfuse gave the same page of calls twice, so that tokens and costs cannot be"
                " added up; report it to the operator of the server, then retry"
            )
        spans = [span for span in map(span_of, page.rows) if span is not None]
        for span in spans:
            self._waiting[span.trace_id].append(span)
        if not page.rest:
            self._reached = self._start - ORDER_SLACK_MS
        elif page.rest[0].cursor is None:
            self._reached = page.rest[0].end
        elif spans:
            self._reached = min(span.start for span in spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class V4Reader:
    """Reads experiments; `late_scores` asks for scores that rows do not show, too."""

    client: Client
    link: Link
    now_ms: Callable[[], int]
    late_scores: bool
    api: Final = "v4"

    def find(self, dataset: Dataset | None, name: str | None) -> FoundRun | None:
        within = [] if dataset is None else [_Condition("datasetId", [dataset.id])]
        if name is None:
            return self._newest(within, dataset)
        named = self._newest([*within, _Condition("name", [name])], dataset)
        return named or self._newest([*within, _Condition("id", [name])], dataset)

    def runs(self, dataset: Dataset) -> list[FoundRun]:
        rows = self._experiments([_Condition("datasetId", [dataset.id])], ROWS)
        return [_found_run(row, dataset) for row in rows]

    def known(self, dataset: Dataset | None) -> list[str]:
        within = [] if dataset is None else [_Condition("datasetId", [dataset.id])]
        rows = self._experiments(within, NAMES_SHOWN)
        return [name for row in rows if (name := text_of(row, "name"))]

    def pages(self, run: FoundRun, rest: JSON | None) -> Iterator[ReadPage]:
        plan = _Plan.read(rest) if rest else _Plan.of(run)
        rows = newest_first(
            plan.rows,
            lambda part: in_smaller_parts(part, lambda one: self._rows(run, one)),
            pace=plan.row_pace,
            ahead=IN_FLIGHT,
        )
        calls = Calls(
            newest_first(
                plan.calls,
                lambda part: in_smaller_parts(part, lambda one: self._calls(run, one)),
                pace=plan.call_pace,
                ahead=CALLS_AHEAD,
            ),
            start=run.start,
            end=max((part.end for part in plan.calls), default=run.start),
        )
        for page in rows:
            traces = self._traces(page, calls)
            after = plan.after(page, calls) if page.rest else None
            yield ReadPage(traces=traces, rest=after, circled=page.circled)

    def _newest(self, conditions: Sequence[_Condition], dataset: Dataset | None) -> FoundRun | None:
        rows = self._experiments(conditions, NAMES_SHOWN)
        found = [_found_run(row, dataset) for row in rows]
        return max(found, key=lambda run: run.end, default=None)

    def _experiments(self, conditions: Sequence[_Condition], limit: int) -> list[JSON]:
        """Experiments by latest activity; of shorter times when the server cannot search them all.

        Raises: `OtherGeneration` when the server does not know experiments.
        """
        since = [BEGINNING_MS, *(self.now_ms() - days * DAY_MS for days in SHORTER_DAYS)]
        refused: AskForLess | None = None
        for start in since:
            try:
                found = self.client.get(
                    "/experiments",
                    {
                        "fromStartTime": moment(start),
                        "limit": limit,
                        "fields": "core",
                        "filter": _filter(*conditions) if conditions else None,
                    },
                )
            except NotThere as error:
                raise OtherGeneration(error.detail) from None
            except AskForLess as error:
                refused = error
            else:
                return rows_of(found, "GET /experiments")
        assert refused is not None
        raise refused.instead

    def _rows(self, run: FoundRun, part: Part) -> Fetched:
        fields = "core,io,metadata,scores"
        document = self.client.get(
            "/experiment-items",
            {
                **_within(part),
                "filter": _filter(_Condition("experimentId", [run.id])),
                "fields": fields,
                "scoreLimit": ROW_SCORES,
            },
        )
        fetched = _fetched(document, part, "GET /experiment-items")
        if not self.late_scores or not fetched.rows:
            return fetched
        ids = {required_text(row, "traceId", "a row of an experiment") for row in fetched.rows}
        return replace(fetched, late_scores=tuple(self._scores(sorted(ids))))

    def _calls(self, run: FoundRun, part: Part) -> Fetched:
        document = self.client.get(
            "/v2/observations",
            {
                **_within(part),
                "fields": "core,basic,usage,trace_context",
                "filter": _filter(
                    _Condition("experimentId", [run.id]), _Condition("type", CALL_TYPES)
                ),
            },
        )
        return _fetched(document, part, "GET /v2/observations")

    def _scores(self, trace_ids: Sequence[str]) -> Iterator[JSON]:
        """Every score of some traces, of whatever time and span."""
        asked: Parameters = {
            "traceId": ",".join(trace_ids),
            "fields": "details,subject",
            "limit": ROWS,
        }
        return self._all("/v3/scores", asked)

    def _spans(self, tasks: Sequence[Task]) -> Iterator[Span]:
        """Every span of the traces of some tasks."""
        trace_ids = sorted({task.trace_id for task in tasks})
        asked: Parameters = {
            "filter": _filter(_Condition("traceId", trace_ids)),
            "fields": "core,basic,usage",
            "fromStartTime": moment(min(task.start for task in tasks)),
            "limit": CALLS,
        }
        rows = self._all("/v2/observations", asked)
        return (span for row in rows if (span := span_of(row)) is not None)

    def _all(self, path: str, asked: Parameters) -> Iterator[JSON]:
        cursor, limit, seen = None, int(asked["limit"] or 1), set[str]()
        while True:
            try:
                document = self.client.get(path, {**asked, "cursor": cursor, "limit": limit})
            except AskForLess as refusal:
                if limit == 1:
                    raise refusal.instead from None
                limit //= 2
                continue
            yield from rows_of(document, f"GET {path}")
            cursor = text_of(meta_of(document), "cursor")
            if cursor is None:
                return
            if cursor in seen:
                raise BadResponse(f"GET {path} (API v4) gave the same page twice")
            seen.add(cursor)

    def _traces(self, page: RowPage, calls: Calls) -> tuple[Trace, ...]:
        """The rows of a page as traces, each row once."""
        tasks = {task.id: task for task in map(task_of, page.rows)}
        if not tasks:
            return ()
        calls.read_since(min(task.start for task in tasks.values()))
        own = self._own_calls(list(tasks.values()), calls)
        late = by_trace(page.late_scores)
        rows = {str(row["id"]): row for row in page.rows}
        return tuple(
            trace_of_row(
                rows[task.id],
                task,
                spending_of(own[task.id]),
                late.get(task.trace_id, ()),
                self.link,
            )
            for task in tasks.values()
        )

    def _own_calls(self, tasks: Sequence[Task], calls: Calls) -> dict[str, list[Span]]:
        """The agent's calls by task; where only the whole tree can tell, it is asked for."""
        known = {trace_id: calls.take(trace_id) for trace_id in {task.trace_id for task in tasks}}
        sorted_ = {task.id: sort_calls(task, known[task.trace_id]) for task in tasks}
        own = {task_id: found.own for task_id, found in sorted_.items()}
        unclear = [task for task in tasks if sorted_[task.id].unclear]
        if unclear:
            spans = list(self._spans(unclear))
            for task in unclear:
                inside = below(task, spans)
                own[task.id] = [span for span in inside if span.type in CALL_TYPES]
        return own


class _Plan(NamedTuple):
    """What is left to read of an experiment, and how."""

    start: int
    rows: list[Part]
    calls: list[Part]
    row_pace: Pace
    call_pace: Pace

    @classmethod
    def of(cls, run: FoundRun) -> "_Plan":
        end = run.end + 1
        width = None
        if run.count > SPLIT_FROM:
            width = max((end - run.start) * ROWS_AIMED_AT // run.count, 1)
        calls = width and width * CALLS // (ROWS_AIMED_AT * CALLS_PER_ROW)
        return cls(
            start=run.start,
            rows=[Part(start=run.start, end=end, limit=ROWS)],
            calls=[Part(start=run.start, end=end, limit=CALLS)],
            row_pace=Pace(width=width),
            call_pace=Pace(width=calls),
        )

    @classmethod
    def read(cls, document: JSON) -> "_Plan":
        return cls(
            start=int(document["start"]),
            rows=[Part.read(part) for part in document["rows"]],
            calls=[Part.read(part) for part in document["calls"]],
            row_pace=Pace(width=document["pace"][0]),
            call_pace=Pace(width=document["pace"][1]),
        )

    def after(self, page: RowPage, calls: Calls) -> JSON:
        before = calls.resume_before
        left = [Part(start=self.start, end=before, limit=CALLS)] if before > self.start else []
        return {
            "start": self.start,
            "rows": [part.document() for part in page.rest],
            "calls": [part.document() for part in left],
            "pace": [self.row_pace.width, self.call_pace.width],
        }


def _within(part: Part) -> Parameters:
    return {
        "fromStartTime": moment(part.start),
        "toStartTime": moment(part.end),
        "limit": part.limit,
        "cursor": part.cursor,
    }


def _filter(*conditions: _Condition) -> str:
    return json.dumps([condition.document() for condition in conditions], separators=(",", ":"))


def _fetched(document: JSON, part: Part, asked: str) -> Fetched:
    rows = rows_of(document, asked)
    cursor = text_of(meta_of(document), "cursor")
    rest = [replace(part, cursor=cursor)] if cursor is not None else []
    size = sum(
        len(text)
        for row in rows
        for text in chain((row.get("input"), row.get("output"), row.get("expectedOutput")))
        if isinstance(text, str)
    )
    return Fetched(rows=rows, rest=rest, size_bytes=size)


def _found_run(row: JSON, dataset: Dataset | None) -> FoundRun:
    start, end = time_of(row, "startTime"), time_of(row, "endTime")
    count = number_of(row.get("itemCount"))
    if start is None or count is None:
        raise BadResponse(
            "Langfuse sent an experiment without startTime or itemCount; check that langfuseUrl"
            " is the address of a Langfuse server of version 4"
        )
    return FoundRun(
        id=required_text(row, "id", "an experiment"),
        name=text_of(row, "name") or "",
        dataset_name=None if dataset is None else dataset.name,
        start=start,
        end=start if end is None else max(end, start),
        count=int(count),
    )
