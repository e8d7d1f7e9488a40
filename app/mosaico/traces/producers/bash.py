"""The trace producer of bash evaluations: runs a model on the tasks of a dataset."""

import hashlib
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO

from mosaico.core.resources import Resources
from mosaico.harness.background import run_in_background
from mosaico.harness.bash.attempt_runner import (
    ProviderRejected,
    Trial,
    evaluate,
    open_budget,
    plan_trials,
)
from mosaico.harness.bash.dataset import parse_dataset, parse_script, require_valid, select_tasks
from mosaico.harness.bash.types import EvalResult, EvalTask
from mosaico.harness.budget import Budget, UsedBudget
from mosaico.harness.harness_config import BashHarnessSettings
from mosaico.harness.results import AttemptOutcome
from mosaico.llm.conversation import Llm, Provider, TurnSettings
from mosaico.llm.providers import KEYS
from mosaico.traces.producers.bash_traces import trace_of
from mosaico.traces.producers.trace_producer import (
    HEARTBEAT_S,
    AnswerWatch,
    ProducedTrace,
    mask_trace,
    open_guarded_llm,
    read_file,
    service_secrets,
)
from mosaico.traces.registry import CollectionFailed, ModelRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class BashProducer:
    """The validated settings and attempts of a benchmark."""

    resources: Resources
    settings: BashHarnessSettings
    trials: Sequence[Trial]

    @property
    def total(self) -> int:
        return len(self.trials)

    @property
    def fingerprint(self) -> str:
        content = ",".join(f"{trial.task.content_hash()}#{trial.number}" for trial in self.trials)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def budget(self, used_budget: UsedBudget) -> Budget:
        return open_budget(self.settings, used_budget)

    def produce(
        self, indexes: Collection[int], budget: Budget
    ) -> Iterator[Sequence[ProducedTrace]]:
        """Raises: `CollectionFailed` when the provider rejects all requests."""
        settings = self.settings
        missing = [trial for index, trial in enumerate(self.trials) if index in indexes]
        index_of = {(trial.task.id, trial.number): index for index, trial in enumerate(self.trials)}
        pages: Generator[list[EvalResult], None, None] = run_in_background(
            lambda send: evaluate(settings, self._open_llm, missing, send, budget),
            heartbeat_s=HEARTBEAT_S,
        )
        answers = AnswerWatch()
        secrets = service_secrets(self.resources)
        try:
            for results in pages:
                for result in results:
                    if result.outcome is not AttemptOutcome.SKIPPED:
                        answers.add(failure=_provider_failure(result))
                yield [
                    ProducedTrace(
                        index=index_of[result.task.id, result.trial],
                        trace=mask_trace(trace_of(result), secrets),
                        # An attempt without a score is made again when the run is retried.
                        is_settled=result.score is not None,
                    )
                    for result in results
                ]
        except ProviderRejected as error:
            raise ModelRefused(
                f"{settings.provider} rejects requests for {settings.model}: {error}; correct"
                " the key or the model, then retry the run"
            ) from None
        finally:
            pages.close()
        answers.require_answer()

    def _open_llm(self, model: str, turn_settings: TurnSettings) -> Llm:
        settings = self.settings
        if settings.provider is Provider.SCRIPTED:
            tasks = {trial.task.id: trial.task for trial in self.trials}.values()
            return _open_script(self.resources, model, tasks)
        return open_guarded_llm(
            self.resources,
            settings.provider,
            model,
            base_url=settings.base_url,
            settings=turn_settings,
            environment=_keys(self.resources, settings),
        )


def bash_producer(
    resources: Resources, dataset_ref: str, settings: BashHarnessSettings
) -> BashProducer:
    """The producer of a benchmark, its files validated.

    Raises: `CollectionFailed`, or the error of an invalid dataset or script.
    """
    _require_key(resources, settings)
    dataset = parse_dataset(BytesIO(read_file(resources, dataset_ref)))
    tasks = select_tasks(require_valid(dataset, dataset_ref), settings.categories, ())
    if settings.provider is Provider.SCRIPTED:
        _open_script(resources, settings.model, tasks)
    trials = plan_trials(tasks, settings.trials)
    return BashProducer(resources=resources, settings=settings, trials=trials)


def _provider_failure(result: EvalResult) -> str | None:
    """Return the reason why the model did not answer; None when it answered at least once."""
    has_turns = result.trace is not None and result.trace.turns > 0
    return None if has_turns or result.score is not None else result.reason


def _open_script(resources: Resources, name: str, tasks: Iterable[EvalTask]) -> Llm:
    return parse_script(BytesIO(read_file(resources, name)), tasks, name=name)


def _require_key(resources: Resources, settings: BashHarnessSettings) -> None:
    needs_key = settings.base_url is None and settings.provider in KEYS
    if needs_key and not _keys(resources, settings):
        raise CollectionFailed(
            f"{settings.provider} needs a key; set {KEYS[settings.provider]} for the workers, or"
            " set baseUrl to your own model server",
            code="MISSING_KEY",
        )


def _keys(resources: Resources, settings: BashHarnessSettings) -> Mapping[str, str]:
    """The API key for the server of the settings.

    Anyone who writes a benchmark can name any server, so the operator's keys go only to the
    provider itself and to the operator's own model server.
    """
    if settings.provider not in KEYS:
        return {}
    name, llm = KEYS[settings.provider], resources.llm_server
    if settings.base_url is None:
        key = resources.model_keys.get(name)
    else:
        key = llm.api_key if llm and llm.base_url == settings.base_url.rstrip("/") else None
    return {name: key.reveal()} if key is not None else {}
