"""A model at work on tasks in a sandboxed bash, as a benchmark orders it."""

import hashlib
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Final

from app.core.resources import Resources
from app.harness.bash.background import in_background
from app.harness.bash.dataset import parse_dataset
from app.harness.bash.evaluation import GivenUp, evaluate, open_budget
from app.harness.bash.run import chosen_tasks, require_usable
from app.harness.bash.runner import Trial, plan_trials
from app.harness.bash.schemas import BashHarnessSettings
from app.harness.bash.scripts import read_script
from app.harness.bash.types import EvalResult, EvalTask
from app.harness.budget import Budget, UsedBudget
from app.llm.conversation import Llm, Provider, TurnSettings
from app.llm.providers import KEYS, open_llm
from app.llm.retry import ATTEMPT_TIMEOUT_S
from app.traces.bash_traces import trace_of
from app.traces.registry import CollectionFailed
from app.traces.trace_producer import ProducedTrace, read_file

BEAT_S: Final = 1.0
MAX_ANSWER: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BashProducer:
    """What a benchmark orders, with everything read that can be wrong about it."""

    resources: Resources
    settings: BashHarnessSettings
    trials: Sequence[Trial]

    @property
    def total(self) -> int:
        return len(self.trials)

    @property
    def digest(self) -> str:
        asked = ",".join(f"{trial.task.content_hash()}#{trial.number}" for trial in self.trials)
        return hashlib.sha256(asked.encode()).hexdigest()[:16]

    def budget(self, spent: UsedBudget) -> Budget:
        return open_budget(self.settings, spent)

    def make(self, places: Collection[int], budget: Budget) -> Iterator[Sequence[ProducedTrace]]:
        """Raises: `CollectionFailed` when no model answers."""
        wanted = self.settings
        missing = [trial for place, trial in enumerate(self.trials) if place in places]
        place_of = {_key(trial): place for place, trial in enumerate(self.trials)}
        pages: Generator[list[EvalResult], None, None] = in_background(
            lambda tell: evaluate(wanted, self._llm, missing, tell, budget), beat_s=BEAT_S
        )
        try:
            for page in pages:
                yield [
                    ProducedTrace(
                        place=place_of[each.task.id, each.trial],
                        trace=trace_of(each),
                        settled=each.score is not None,
                    )
                    for each in page
                ]
        except GivenUp as error:
            raise CollectionFailed(
                f"{wanted.provider} does not let {wanted.model} answer: {error}; mend that, then"
                " retry the run",
                code="MODEL_REFUSED",
            ) from None
        finally:
            pages.close()

    def _llm(self, model: str) -> Llm:
        wanted = self.settings
        if wanted.provider is Provider.SCRIPTED:
            tasks = {trial.task.id: trial.task for trial in self.trials}.values()
            return _script(self.resources, model, tasks)
        from app.core.http.async_client import outbound_async_client

        return open_llm(
            wanted.provider,
            model,
            base_url=wanted.base_url,
            settings=TurnSettings(
                max_output_tokens=wanted.max_output_tokens, temperature=wanted.temperature
            ),
            environment=_keys(self.resources, wanted),
            http=outbound_async_client(
                timeout_s=ATTEMPT_TIMEOUT_S, max_bytes=MAX_ANSWER, policy=self.resources.outbound
            ),
        )


def bash_producer(
    resources: Resources, dataset_ref: str, wanted: BashHarnessSettings
) -> BashProducer:
    """Raises: `CollectionFailed`, or what a dataset or script is found to be wrong with."""
    _require_key(resources, wanted)
    dataset = parse_dataset(BytesIO(read_file(resources, dataset_ref)))
    tasks = chosen_tasks(require_usable(dataset, dataset_ref), wanted.categories, ())
    if wanted.provider is Provider.SCRIPTED:
        _script(resources, wanted.model, tasks)
    trials = plan_trials(tasks, wanted.trials)
    return BashProducer(resources=resources, settings=wanted, trials=trials)


def _script(resources: Resources, name: str, tasks: Iterable[EvalTask]) -> Llm:
    return read_script(BytesIO(read_file(resources, name)), tasks, name=name)


def _require_key(resources: Resources, wanted: BashHarnessSettings) -> None:
    if wanted.base_url is None and not _keys(resources, wanted) and wanted.provider in KEYS:
        variable = KEYS[wanted.provider]
        raise CollectionFailed(
            f"{wanted.provider} wants a key, and {variable} is not set; have the operator set it"
            " for the workers, or name a server of your own as baseUrl",
            code="MISSING_KEY",
        )


def _keys(resources: Resources, wanted: BashHarnessSettings) -> Mapping[str, str]:
    """The key that a server is trusted with: whoever writes a benchmark may name any server, so
    the operator's keys go to the provider itself, and to the operator's own server of models.
    """
    if wanted.provider not in KEYS:
        return {}
    name, llm = KEYS[wanted.provider], resources.llm_server
    if wanted.base_url is None:
        key = resources.model_keys.get(name)
    else:
        key = llm.api_key if llm and llm.base_url == wanted.base_url.rstrip("/") else None
    return {name: key.reveal()} if key is not None else {}


def _key(trial: Trial) -> tuple[str, int]:
    return trial.task.id, trial.number
