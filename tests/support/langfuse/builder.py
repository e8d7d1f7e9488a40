"""What a test says to the stand-in: what it knows, what goes wrong, and what was asked of it."""

import json
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, ClassVar

from tests.support.langfuse.datasets import Dataset
from tests.support.langfuse.faults import Fault, Injection
from tests.support.langfuse.generated import PACE, Experiment, ScorePlan, plan_spans
from tests.support.langfuse.records import PROJECT_ID, SOME_NIGHT
from tests.support.langfuse.server import (
    ORGANISATION_PUBLIC_KEY,
    ORGANISATION_SECRET_KEY,
    Asked,
    Server,
)
from tests.support.langfuse.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """A running Langfuse and the hands on it."""

    server: Server
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
        """A dataset of generated items; the same one when it is there already.

        `archived` and `deleted` are numbers of items that were so from `changed_at` on.
        """
        if name not in self.store.datasets:
            number = len(self.store.datasets) + 1
            fields.setdefault("created_at", SOME_NIGHT - timedelta(days=30))
            self.store.datasets[name] = Dataset(
                id=f"dataset-{number}", name=name, generated=items, **fields
            )
        return self.store.datasets[name]

    def experiment(
        self,
        *,
        dataset: str = "support",
        run: str = "night-1",
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
    ) -> Experiment:
        """A finished run over a dataset, which is made when it is missing.

        Items are numbered from the oldest. `calls_per_item` generations and `tools_per_item`
        tools lie under the task, one span deeper when `nested`; `judged` adds an evaluator with a
        costly call beside the task. `errors` are numbers of items whose task raised; `input_of`
        and `expected_of` get the number of the dataset item, `output_of` that of the row, and
        None is a missing output. `linked_by` is `otel` (SDK 5) or `run_items` (older harnesses).
        See `Experiment` for the rest.
        """
        number = len(self.store.experiments) + 1
        home = self.dataset(dataset, items=items, **_given(input_of, expected_of))
        experiment = Experiment(
            number=number,
            id=experiment_id(home.id, run),
            name=run,
            dataset_name=home.name,
            dataset_id=home.id,
            items=items,
            trials=trials,
            started=started or SOME_NIGHT + timedelta(hours=number - 1),
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
        )
        self.store.experiments.append(experiment)
        return experiment

    def inject(self, fault: Fault, *, path: str = "*", on: Container[int] = (1,)) -> None:
        """Let requests for a path (`/experiment-items`) go wrong: those of these numbers."""
        self.server.injections.append(Injection(path=path, on=on, fault=fault))

    def start_anew(self) -> None:
        """Forget everything, and take other keys: as good as a new server, and faster."""
        self.server.start_anew()

    def mend(self) -> None:
        """Nothing goes wrong any more."""
        self.server.injections.clear()

    def answer_slowly(self, latency_s: float) -> None:
        self.server.latency_s = latency_s

    def shorten_pages(self, by: int) -> None:
        """Pages hold fewer rows than asked for, although more follow."""
        self.store.pages_shorter_by = by

    def delay_scores(self, looks: int) -> None:
        """Written scores are read back only after that many reads that do not show them."""
        self.store.scores_wait_for_looks = looks

    @property
    def asked(self) -> Sequence[Asked]:
        """Every request so far, in the order in which they were answered."""
        return tuple(self.server.asked)

    def asked_for(self, path: str) -> Sequence[Asked]:
        return [one for one in self.server.asked if one.path == path]

    def paths(self) -> Collection[str]:
        return [one.path for one in self.server.asked]

    def forget(self) -> None:
        """Begin to count anew."""
        self.server.asked.clear()
        self.server.most_in_flight = 0

    @property
    def most_in_flight(self) -> int:
        return self.server.most_in_flight


def experiment_id(dataset_id: str, run: str) -> str:
    """The id that server and SDK derive from project, dataset and name of the run."""
    parts = ["langfuse-experiment-v1", PROJECT_ID, dataset_id, run]
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:16]


def _given(
    input_of: Callable[[int], Any] | None, expected_of: Callable[[int], Any] | None
) -> dict[str, Any]:
    given = {"input_of": input_of, "expected_of": expected_of}
    return {name: value for name, value in given.items() if value is not None}
