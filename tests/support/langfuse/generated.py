"""Experiments of any size, generated row by row when they are read."""

import json
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from tests.support.langfuse.pagination import NewestFirst
from tests.support.langfuse.records import Key, Membership, Observation, Score

PACE: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePlan:
    """A score of every item, or of the run: what it is worth, and where and when it appears.

    `on` is `task` (the row itself), `trace`, `call` (a span below the task, which rows do not
    show) or `run`. A score that comes more than a day `after` its row is late: rows do not show
    it either. `value` may be a function of the item's number; `items` says which have it at all.
    """

    name: str
    value: float | str | Callable[[int], float | str]
    data_type: str = "NUMERIC"
    on: str = "task"
    after: timedelta = timedelta()
    items: Container[int] | None = None
    source: str = "API"
    comment: str | None = None
    metadata: Any = None

    def value_of(self, number: int) -> float | str:
        return self.value(number) if callable(self.value) else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One place in the trace of an item; `begins` and `lasts` are in the pace of five seconds."""

    name: str
    type: str
    parent: int | None
    begins: timedelta
    lasts: timedelta
    of_judge: bool = False


def plan_spans(*, calls: int, tools: int, nested: bool, judged: bool) -> tuple[Span, ...]:
    """The spans that the SDK and an instrumented agent leave, in the order of their starts."""
    spans = [
        # The names and the tree of SDK 5: run → task + evaluation. The row of an item is its task.
        _span("experiment-item-run", "SPAN", None, 0, 3000),
        _span("experiment-item-task", "SPAN", 0, 1, 1200),
    ]
    if nested:
        spans.append(_span("agent", "AGENT", 1, 2, 1190))
    parent = len(spans) - 1
    spans += [_span(f"call-{n}", "GENERATION", parent, 10 + n, 300) for n in range(calls)]
    spans += [_span(f"tool-{n}", "TOOL", parent, 400 + n, 50) for n in range(tools)]
    if judged:
        at = len(spans)
        spans += [
            _span("experiment-item-evaluation", "SPAN", 0, 2000, 900, of_judge=True),
            _span("judge", "EVALUATOR", at, 2001, 800, of_judge=True),
            _span("judge-call", "GENERATION", at + 1, 2002, 700, of_judge=True),
        ]
    return tuple(spans)


def _span(
    name: str, kind: str, parent: int | None, at: int, lasts: int, *, of_judge: bool = False
) -> Span:
    return Span(
        name=name,
        type=kind,
        parent=parent,
        begins=timedelta(milliseconds=at),
        lasts=timedelta(milliseconds=lasts),
        of_judge=of_judge,
    )


@dataclass(slots=True, kw_only=True)
class Experiment:
    """A run of an agent over a dataset, by number of the item: 0 is the oldest.

    `repeated` is how often each span was ingested: rows come that many times, on far-apart pages.
    `visible` is how many items can be read at each look at the experiment's summary; the last
    number stays. `first_item` is the number of the first item that is asked. The model is unpriced when `priced` is false: cost 0 without details.
    """

    number: int
    id: str
    name: str
    dataset_name: str
    dataset_id: str
    items: int
    trials: int
    started: datetime
    every: timedelta
    spans: tuple[Span, ...]
    scores: Sequence[ScorePlan]
    errors: Container[int]
    input_of: Callable[[int], Any]
    output_of: Callable[[int], Any]
    expected_of: Callable[[int], Any]
    repeated: int
    visible: Sequence[int]
    priced: bool
    linked_by: str
    metadata: dict[str, Any]
    description: str | None
    first_item: int = 0
    failure: str = "the agent gave up"
    looks: int = 0
    visible_count: int = field(init=False)
    raw_metadata: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.raw_metadata = {name: json.dumps(value) for name, value in self.metadata.items()}
        self.visible_count = self.visible[0] if self.visible else self.items * self.trials

    def look(self) -> None:
        """Count a read of the summary, which can make more items visible."""
        if self.visible:
            self.visible_count = self.visible[min(self.looks, len(self.visible) - 1)]
            self.looks += 1

    def trace_id(self, number: int) -> str:
        return f"{self.number:08x}{number:024x}"

    def span_id(self, number: int, slot: int) -> str:
        return f"{self.number:04x}{slot:02x}{number:010x}"

    def number_of(self, trace_id: str) -> int | None:
        """The item number of a trace; None for a foreign trace."""
        try:
            experiment, number = int(trace_id[:8], 16), int(trace_id[8:], 16)
        except ValueError:
            return None
        exists = experiment == self.number and len(trace_id) == 32 and number < self.visible_count
        return number if exists else None

    def item_number(self, number: int) -> int:
        return self.first_item + number // self.trials

    def item_id(self, number: int) -> str:
        return f"{self.dataset_id}-{self.item_number(number)}"

    def observations(self, types: frozenset[str] | None = None) -> NewestFirst[Observation]:
        """Spans of the given types, or all spans."""
        slots = [at for at, span in enumerate(self.spans) if types is None or span.type in types]
        return self._sequence(slots)

    def rows(self) -> NewestFirst[Observation]:
        """The root spans of the items, which are the rows of the experiment."""
        return self._sequence([1])

    def roots(self) -> NewestFirst[Observation]:
        return self._sequence([0])

    def _sequence(self, slots: list[int]) -> NewestFirst[Observation]:
        visible_count, many = self.visible_count, len(slots)
        length = visible_count * many * self.repeated

        def place(at: int) -> tuple[int, int, int]:
            # From the end, because the server lists the newest first and
            # items are numbered from the oldest.
            number, slot = divmod(length - 1 - at, many)
            batch, number = divmod(number, visible_count)
            return number, slots[slot], batch

        def key(at: int) -> Key:
            number, slot, batch = place(at)
            return Key(self._begins(number, slot, batch), self.span_id(number, slot))

        def record(at: int) -> Observation | None:
            return self.observation(*place(at))

        return NewestFirst(length=length, key=key, record=record)

    def trace(self, number: int) -> Iterator[Observation]:
        for slot in range(len(self.spans)):
            observation = self.observation(number, slot)
            if observation is not None:
                yield observation

    def scores_of(self, number: int) -> Iterator[Score]:
        for plan in self.scores:
            if plan.on != "run":
                score = self._score(plan, number)
                if score is not None:
                    yield score

    def run_scores(self) -> Iterator[Score]:
        for plan in self.scores:
            if plan.on == "run":
                yield self._new_score(plan, 0, self.ends + plan.after, experiment_id=self.id)

    def score_sequences(self) -> Iterator[NewestFirst[Score]]:
        for plan in self.scores:
            if plan.on != "run":
                yield self._scores_of_plan(plan)
        yield NewestFirst.of(self.run_scores())

    @property
    def ends(self) -> datetime:
        return self.started + self.every * (self.items * self.trials)

    def _scores_of_plan(self, plan: ScorePlan) -> NewestFirst[Score]:
        last = self.visible_count - 1
        return NewestFirst(
            length=self.visible_count,
            key=lambda at: Key(self._scored_at(plan, last - at), self._score_id(plan, last - at)),
            record=lambda at: self._score(plan, last - at),
        )

    def _begins(self, number: int, slot: int, batch: int = 0) -> datetime:
        # A repeated ingestion comes after all items of the one
        # before, so on another page of the list.
        later = self.every * (number + batch * self.items * self.trials)
        return self.started + later + self._paced(self.spans[slot].begins)

    def _paced(self, time: timedelta) -> timedelta:
        return time if self.every == PACE else time * (self.every / PACE)

    def observation(self, number: int, slot: int, batch: int = 0) -> Observation | None:
        """A span of an item; None for the judge span of a failed item."""
        span, failed = self.spans[slot], number in self.errors
        if failed and span.of_judge:
            return None
        begins = self._begins(number, slot, batch)
        # Only the SDK's own spans, run and task, have texts, level and
        # metadata; calls of the agent have none.
        shows = slot < 2
        return Observation(
            id=self.span_id(number, slot),
            trace_id=self.trace_id(number),
            parent_id=None if span.parent is None else self.span_id(number, span.parent),
            type=span.type,
            name=span.name,
            start=begins,
            end=begins + self._paced(span.lasts),
            level="ERROR" if failed and shows else "DEFAULT",
            status_message=self.failure if failed and shows else None,
            environment="sdk-experiment",
            input=raw_text(self.input_of(self.item_number(number))) if shows else None,
            output=self._output(number) if shows else "",
            metadata=self._metadata(number) if shows else {},
            model="small-model" if span.type == "GENERATION" else None,
            usage=self._usage(number, slot),
            cost=self._cost(slot),
            experiment=self._membership(number, self._expected(number) if shows else None),
            trace_name="experiment-item-run",
            is_root=slot == 0,
        )

    def _expected(self, number: int) -> str | None:
        return raw_text(self.expected_of(self.item_number(number)))

    def _output(self, number: int) -> str:
        if number in self.errors:
            # As the SDK stores an exception of a task: it must not be scored as an answer.
            return f"Error: {self.failure}"
        return raw_text(self.output_of(number)) or ""

    def _metadata(self, number: int) -> dict[str, str]:
        own = {
            "experiment_name": self.name,
            "experiment_run_name": self.name,
            "dataset_id": self.dataset_id,
            "dataset_item_id": self.item_id(number),
        }
        return {name: json.dumps(value) for name, value in own.items()} | self.raw_metadata

    def _membership(self, number: int, expected_output: str | None) -> Membership:
        return Membership(
            experiment_id=self.id,
            experiment_name=self.name,
            item_id=self.item_id(number),
            root_id=self.span_id(number, 1),
            dataset_id=self.dataset_id,
            expected_output=expected_output,
            # Quoted twice: `/experiment-items` returns metadata as JSON texts.
            item_metadata={"topic": f'"topic {self.item_number(number) % 7}"'},
            metadata=self.raw_metadata,
            description=self.description,
        )

    def _usage(self, number: int, slot: int) -> dict[str, int]:
        """Token counts of a call; every other call omits the total."""
        if self.spans[slot].type != "GENERATION":
            return {}
        usage = {"input": 100 + number % 7, "output": 20 + slot}
        if (number + slot) % 2:
            return usage
        return usage | {"total": usage["input"] + usage["output"]}

    def _cost(self, slot: int) -> dict[str, float]:
        """0.001 USD per agent call, 0.01 USD per judge call."""
        if self.spans[slot].type != "GENERATION" or not self.priced:
            return {}
        return {"total": 0.01 if self.spans[slot].of_judge else 0.001}

    def _score(self, plan: ScorePlan, number: int) -> Score | None:
        if number in self.errors or (plan.items is not None and number not in plan.items):
            return None
        slot = {"task": 1, "trace": None, "call": len(self.spans) - 1}[plan.on]
        if plan.on == "call":
            # The first call; the last span of the tree may be the call of a judge.
            slot = next(at for at, span in enumerate(self.spans) if span.type == "GENERATION")
        return self._new_score(
            plan,
            number,
            self._scored_at(plan, number),
            trace_id=self.trace_id(number),
            observation_id=None if slot is None else self.span_id(number, slot),
        )

    def _scored_at(self, plan: ScorePlan, number: int) -> datetime:
        # When the next item begins: evaluators run after the task.
        return self.started + self.every * (number + 1) + plan.after

    def _score_id(self, plan: ScorePlan, number: int) -> str:
        return f"score-{self.number}-{self.scores.index(plan)}-{number:010d}"

    def _new_score(self, plan: ScorePlan, number: int, at: datetime, **about: Any) -> Score:
        return Score(
            id=self._score_id(plan, number),
            name=plan.name,
            data_type=plan.data_type,
            value=plan.value_of(number),
            timestamp=at,
            source=plan.source,
            comment=plan.comment,
            metadata=plan.metadata,
            **about,
        )


def raw_text(value: Any) -> str | None:
    """A value as stored: text unchanged, anything else as JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value)
