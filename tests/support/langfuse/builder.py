"""Controls the fake server: its data, its faults and its recorded requests."""

import json
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, ClassVar

from tests.support.langfuse.datasets import Dataset
from tests.support.langfuse.exchange import Fault, Injection
from tests.support.langfuse.generated import PACE, Experiment, ScorePlan, plan_spans
from tests.support.langfuse.records import DEFAULT_TIME, PROJECT_ID, Observation, Score
from tests.support.langfuse.server import (
    ORGANISATION_PUBLIC_KEY,
    ORGANISATION_SECRET_KEY,
    FakeServer,
    RecordedRequest,
)
from tests.support.langfuse.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeLangfuse:
    """A running fake server and its controls."""

    server: FakeServer
    url: str
    organisation_public_key: ClassVar[str] = ORGANISATION_PUBLIC_KEY
    organisation_secret_key: ClassVar[str] = ORGANISATION_SECRET_KEY
    project_id: ClassVar[str] = PROJECT_ID

    @property
    def public_key(self) -> str:
        return self.server.public_key

    @property
    def secret_key(self) -> str:
        return self.server.secret_key

    @property
    def store(self) -> Store:
        return self.server.store

    def dataset(self, name: str, *, items: int = 0, **fields: Any) -> Dataset:
        """Get or create a dataset of generated items.

        `archived` and `deleted` are the numbers of items with this state since `changed_at`.
        """
        if name not in self.store.datasets:
            number = len(self.store.datasets) + 1
            # Older than every run: a run sees only items that its dataset had when it began.
            fields.setdefault("created_at", DEFAULT_TIME - timedelta(days=30))
            self.store.datasets[name] = Dataset(
                id=f"dataset-{number}", name=name, generated=items, **fields
            )
        return self.store.datasets[name]

    def experiment(
        self,
        *,
        dataset: str = "support",
        run: str = "run-1",
        items: int = 10,
        trials: int = 1,
        calls_per_item: int = 2,
        tools_per_item: int = 0,
        nested: bool = False,
        judged: bool = False,
        scores: Sequence[ScorePlan] = (),
        errors: Container[int] = (),
        started: datetime | None = None,
        every: timedelta = PACE,
        input_of: Callable[[int], Any] | None = None,
        output_of: Callable[[int], Any] | None = None,
        expected_of: Callable[[int], Any] | None = None,
        repeated: int = 1,
        visible: Sequence[int] = (),
        priced: bool = True,
        linked_by: str | None = None,
        metadata: dict[str, Any] | None = None,
        description: str | None = None,
        first_item: int = 0,
        failure: str = "the agent gave up",
    ) -> Experiment:
        """Add a finished run over a dataset, which is created if it is missing.

        Items are numbered from the oldest. `calls_per_item` generations and `tools_per_item`
        tools lie under the task, one span deeper when `nested`; `judged` adds an evaluator with a
        costly call beside the task. `errors` are numbers of items whose task raised `failure`; `input_of`
        and `expected_of` get the number of the dataset item, `output_of` that of the row, and
        None is a missing output. `linked_by` is `otel` (SDK 5) or `run_items` (older harnesses).
        See `Experiment` for the rest.
        """
        number = len(self.store.experiments) + 1
        home = self.dataset(dataset, items=items, **_without_none(input_of, expected_of))
        experiment = Experiment(
            number=number,
            id=experiment_id(home.id, run),
            name=run,
            dataset_name=home.name,
            dataset_id=home.id,
            items=items,
            trials=trials,
            # An hour apart, so that "the newest run" is the one that was added last.
            started=started or DEFAULT_TIME + timedelta(hours=number - 1),
            every=every,
            spans=plan_spans(
                calls=calls_per_item, tools=tools_per_item, nested=nested, judged=judged
            ),
            scores=tuple(scores),
            errors=errors,
            input_of=home.input_of,
            output_of=output_of or (lambda number: f"answer {number}"),
            expected_of=home.expected_of,
            repeated=repeated,
            visible=tuple(visible),
            priced=priced,
            linked_by=linked_by or ("run_items" if self.server.mode == "v3" else "otel"),
            metadata=metadata or {},
            description=description,
            first_item=first_item,
            failure=failure,
        )
        self.store.experiments.append(experiment)
        return experiment

    def production_trace(
        self,
        number: int = 0,
        *,
        started: datetime = DEFAULT_TIME,
        question: str | None = None,
        answer: str | None = None,
        calls: int = 1,
        failure: str | None = None,
        texts_on_calls: bool = False,
        metadata: dict[str, Any] | None = None,
        scores: dict[str, float | str] | None = None,
        **fields: Any,
    ) -> str:
        """Add a trace of production, a root with `calls` generations, and return its ID.

        With `texts_on_calls` the root has no texts. `fields` are those of every span, such as `tags`.
        The SDK stores texts in `metadata` as JSON.
        """
        # 32 hexadecimal digits, as OpenTelemetry requires of a trace ID.
        trace_id = f"{number:032x}"
        question = question or f"question {number}"
        answer = f"answer {number}" if answer is None else answer
        own = {"trace_id": trace_id, "trace_name": "agent", **fields}
        root = Observation(
            id=f"{number:015x}r",
            parent_id=None,
            type="SPAN",
            name="agent",
            start=started,
            end=started + timedelta(seconds=2),
            level="ERROR" if failure else "DEFAULT",
            status_message=failure,
            input=None if texts_on_calls else question,
            output=None if texts_on_calls else answer,
            metadata={name: json.dumps(value) for name, value in (metadata or {}).items()},
            is_root=True,
            **own,
        )
        self.store.store_span(root)
        for call in range(calls):
            start = started + timedelta(milliseconds=100 * (call + 1))
            self.store.store_span(
                Observation(
                    id=f"{number:013x}c{call:02x}",
                    parent_id=root.id,
                    type="GENERATION",
                    name="call",
                    start=start,
                    end=start + timedelta(milliseconds=50),
                    input=question,
                    output=answer,
                    usage={"input": 100, "output": 20},
                    cost={"total": 0.001},
                    **own,
                )
            )
        for name, value in (scores or {}).items():
            score = Score(
                id=f"score-{number}-{name}",
                name=name,
                data_type="CATEGORICAL" if isinstance(value, str) else "NUMERIC",
                value=value,
                # After the end of the root, which lasts two seconds, as
                # evaluators write their scores.
                timestamp=started + timedelta(seconds=5),
                trace_id=trace_id,
            )
            self.store.store_score(score)
        return trace_id

    def inject(self, fault: Fault, *, path: str = "*", on: Container[int] = (1,)) -> None:
        """Inject a fault into the requests `on` (counted from 1) for a path (`/experiment-items`)."""
        self.server.injections.append(Injection(path=path, on=on, fault=fault))

    def reset(self) -> None:
        """Delete all data and change the keys: equal to a new server, and faster."""
        self.server.reset()

    def clear_faults(self) -> None:
        """Remove all faults."""
        self.server.injections.clear()

    def set_short_pages(self, by: int) -> None:
        """Return fewer rows per page than requested, although more follow."""
        self.store.rows_missing_per_page = by

    def set_score_delay(self, looks: int) -> None:
        """Hide written scores for a number of reads."""
        self.store.score_delay_reads = looks

    @property
    def requests(self) -> Sequence[RecordedRequest]:
        """All requests so far, in the order of their responses."""
        return tuple(self.server.requests)

    def requests_for(self, path: str) -> Sequence[RecordedRequest]:
        return [request for request in self.server.requests if request.path == path]

    def clear_requests(self) -> None:
        """Delete the recorded requests."""
        self.server.requests.clear()
        self.server.max_in_flight = 0

    @property
    def max_in_flight(self) -> int:
        return self.server.max_in_flight


def experiment_id(dataset_id: str, run: str) -> str:
    """The experiment ID that server and SDK derive from project, dataset and run name."""
    parts = ["langfuse-experiment-v1", PROJECT_ID, dataset_id, run]
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:16]


def _without_none(
    input_of: Callable[[int], Any] | None, expected_of: Callable[[int], Any] | None
) -> dict[str, Any]:
    functions = {"input_of": input_of, "expected_of": expected_of}
    return {name: value for name, value in functions.items() if value is not None}
