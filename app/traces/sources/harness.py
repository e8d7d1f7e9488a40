"""Traces that are made on the spot: a model works on the tasks of a dataset in a sandboxed bash."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from app.core.errors import NotFound
from app.core.resources import Resources
from app.harness.bash.background import in_background
from app.harness.bash.dataset import parse_dataset
from app.harness.bash.evaluation import GivenUp, evaluate, spending_of
from app.harness.bash.run import chosen_tasks, require_usable
from app.harness.bash.runner import Trial, plan_trials
from app.harness.bash.schemas import HarnessSettings
from app.harness.bash.scripts import read_script
from app.harness.bash.types import EvalResult, EvalTask
from app.harness.folder import read_below
from app.harness.limits import Spending
from app.harness.llm.calling import TOTAL_S
from app.harness.llm.conversation import Llm, Provider, TurnSettings, Usage
from app.harness.llm.providers import KEYS, open_llm
from app.traces.bash_results import trace_of
from app.traces.registry import (
    TRACE_SOURCES,
    CollectionFailed,
    SourceSpec,
    TracePage,
    TraceQuery,
)

BEAT_S: Final = 1.0
MAX_ANSWER: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessSource:
    """Lets a model try every task; the cursor says which attempts are done, of which tasks, and
    what was spent.

    An attempt is stored with its page as soon as it has a score, so that a run that is killed makes
    again only those that were under way. Those without a score are stored last: whoever goes on
    with a run that failed makes them again.
    """

    resources: Resources

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        evaluation = _prepared(self.resources, query)
        trials, total = evaluation.trials, len(evaluation.trials)
        places = {_key(trial): place for place, trial in enumerate(trials)}
        done, spent = _read_cursor(cursor, evaluation.digest)
        missing = [trial for place, trial in enumerate(trials) if place not in done]
        spending = spending_of(evaluation.settings, spent)

        def page(made: Sequence[EvalResult]) -> TracePage:
            done.update(places[result.task.id, result.trial] for result in made)
            ahead = f"{evaluation.digest}:{_text_of(done)}:{_text_of_tokens(spending)}"
            return TracePage(
                traces=tuple(map(trace_of, made)),
                cursor=None if len(done) == total else ahead,
                total=total,
            )

        if not missing:
            yield page([])
        unscored: list[EvalResult] = []
        for results in evaluation.results(missing, spending):
            unscored += (each for each in results if each.score is None)
            yield page([each for each in results if each.score is not None])
        if unscored:
            yield page(unscored)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evaluation:
    """What a benchmark orders, with everything read that can be wrong about it."""

    resources: Resources
    settings: HarnessSettings
    trials: Sequence[Trial]
    digest: str

    def results(self, missing: Sequence[Trial], spending: Spending) -> Iterator[list[EvalResult]]:
        """What comes of the attempts that are missing. Raises: `CollectionFailed` when no model
        answers.
        """
        wanted = self.settings
        try:
            yield from in_background(
                lambda tell: evaluate(wanted, self._llm, missing, tell, spending), beat_s=BEAT_S
            )
        except GivenUp as error:
            raise CollectionFailed(
                f"{wanted.provider} does not let {wanted.model} answer: {error}; mend that, then"
                " retry the run",
                code="MODEL_REFUSED",
            ) from None

    def _llm(self, model: str) -> Llm:
        wanted = self.settings
        if wanted.provider is Provider.SCRIPTED:
            tasks = {trial.task.id: trial.task for trial in self.trials}.values()
            return _script(self.resources, model, tasks)
        from app.harness.outbound import outbound_async_client

        return open_llm(
            wanted.provider,
            model,
            base_url=wanted.base_url,
            settings=TurnSettings(
                max_output_tokens=wanted.max_output_tokens, temperature=wanted.temperature
            ),
            environment=_keys(self.resources, wanted),
            http=outbound_async_client(
                timeout_s=TOTAL_S, max_bytes=MAX_ANSWER, policy=self.resources.outbound
            ),
        )


def _prepared(resources: Resources, query: TraceQuery) -> _Evaluation:
    """Raises: `CollectionFailed`, or what a dataset or script is found to be wrong with."""
    wanted = query.harness
    if wanted is None:
        raise CollectionFailed(
            "the benchmark names no model; set its harness to a provider and a model",
            code="NO_MODEL",
        )
    _require_key(resources, wanted)
    tasks = _tasks(resources, query.dataset_ref, wanted)
    trials = plan_trials(tasks, wanted.trials)
    if wanted.provider is Provider.SCRIPTED:
        _script(resources, wanted.model, tasks)
    return _Evaluation(resources=resources, settings=wanted, trials=trials, digest=_digest(trials))


def _tasks(
    resources: Resources, dataset_ref: str | None, wanted: HarnessSettings
) -> list[EvalTask]:
    if dataset_ref is None:
        raise CollectionFailed(
            "the benchmark names no dataset; set its datasetRef to a file of the operator's folder",
            code="DATASET_NOT_FOUND",
        )
    dataset = parse_dataset(_read(resources, dataset_ref))
    return chosen_tasks(require_usable(dataset, dataset_ref), wanted.categories, ())


def _script(resources: Resources, name: str, tasks: Iterable[EvalTask]) -> Llm:
    return read_script(_read(resources, name), tasks, name=name)


def _read(resources: Resources, name: str) -> Iterable[bytes]:
    folder = resources.options.get("harness_dir")
    if not folder:
        raise CollectionFailed(
            "no folder of datasets is configured; have the operator set MOSAICO_HARNESS_DIR for"
            " the workers",
            code="HARNESS_NOT_CONFIGURED",
        )
    try:
        return BytesIO(read_below(Path(folder), name))
    except NotFound as error:
        raise CollectionFailed(error.detail, code="DATASET_NOT_FOUND") from None


def _require_key(resources: Resources, wanted: HarnessSettings) -> None:
    if wanted.base_url is None and not _keys(resources, wanted) and wanted.provider in KEYS:
        variable = KEYS[wanted.provider]
        raise CollectionFailed(
            f"{wanted.provider} wants a key, and {variable} is not set; have the operator set it"
            " for the workers, or name a server of your own as baseUrl",
            code="MISSING_KEY",
        )


def _keys(resources: Resources, wanted: HarnessSettings) -> Mapping[str, str]:
    """The key that a server is trusted with: whoever writes a benchmark may name any server, so
    the operator's keys go to the provider itself, and to the operator's own server of models.
    """
    if wanted.provider not in KEYS:
        return {}
    name, llm = KEYS[wanted.provider], resources.llm
    if wanted.base_url is None:
        key = resources.model_keys.get(name)
    else:
        key = llm.api_key if llm and llm.base_url == wanted.base_url.rstrip("/") else None
    return {name: key.reveal()} if key is not None else {}


def _lock(query: TraceQuery) -> str | None:
    """Runs that ask one server of models ask it one after the other."""
    wanted = query.harness
    if wanted is None or wanted.provider is Provider.SCRIPTED:
        return None
    return f"harness:{wanted.provider}:{wanted.base_url or ''}"


def _key(trial: Trial) -> tuple[str, int]:
    return trial.task.id, trial.number


def _digest(trials: Sequence[Trial]) -> str:
    """Which attempts a run is made of: another one when a task was edited meanwhile."""
    asked = ",".join(f"{trial.task.content_hash()}#{trial.number}" for trial in trials)
    return hashlib.sha256(asked.encode()).hexdigest()[:16]


class _Done(NamedTuple):
    """The attempts that are done, by their place in the plan, and what they took."""

    places: set[int]
    spent: Usage


def _read_cursor(cursor: str | None, digest: str) -> _Done:
    """How far a run came. Raises: `CollectionFailed` when it was at work on other tasks."""
    if cursor is None:
        return _Done(set(), Usage(input_tokens=0, output_tokens=0))
    before, text, tokens = (*cursor.split(":"), "")[:3]
    if before != digest:
        raise CollectionFailed(
            "the dataset was changed while the run was working on it; start a new run",
            code="DATASET_CHANGED",
        )
    stretches = [each.partition("-") for each in text.split(",") if each]
    read, _, written = tokens.partition("+")
    return _Done(
        {n for first, _, last in stretches for n in range(int(first), int(last or first) + 1)},
        Usage(input_tokens=int(read or 0), output_tokens=int(written or 0)),
    )


def _text_of_tokens(spending: Spending) -> str:
    return f"{spending.told_input}+{spending.told_output}"


def _text_of(places: Iterable[int]) -> str:
    """Places as stretches: `0-12,14`."""
    stretches = []
    for _, stretch in groupby(enumerate(sorted(places)), key=lambda each: each[1] - each[0]):
        found = [place for _, place in stretch]
        stretches.append(str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}")
    return ",".join(stretches)


TRACE_SOURCES.register(
    "harness",
    SourceSpec(
        open=lambda resources: HarnessSource(resources=resources), lock=_lock, runs_models=True
    ),
)
