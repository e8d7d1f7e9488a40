"""The models of a run; each is opened once, before the first request."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from mosaico.harness.budget import Budget, RunBudgetExhausted
from mosaico.harness.judge import JudgeError
from mosaico.harness.mcp.config import TaskType
from mosaico.harness.mcp.plan import LlmEndpoint, PlannedTask
from mosaico.harness.results import JudgeUsage
from mosaico.harness.watched_llm import turn_within
from mosaico.llm.conversation import Llm, TurnSettings
from mosaico.llm.errors import LlmError
from mosaico.llm.folder_cache import TurnCache
from mosaico.llm.prices import Price
from mosaico.llm.providers import KEYS, open_llm

OpenModel: TypeAlias = Callable[[LlmEndpoint, str, TurnSettings], Llm]


def open_model(endpoint: LlmEndpoint, model: str, settings: TurnSettings) -> Llm:
    """Open a model at an endpoint. Raises MissingKey."""
    environment = {KEYS[endpoint.provider]: endpoint.api_key} if endpoint.api_key else {}
    return open_llm(
        endpoint.provider,
        model,
        base_url=endpoint.base_url,
        settings=settings,
        environment=environment,
    )


class ModelKey(NamedTuple):
    """A model at an endpoint, with the settings of its requests."""

    endpoint: LlmEndpoint
    model: str
    settings: TurnSettings = TurnSettings()


def _model_keys(task: PlannedTask) -> Iterable[ModelKey]:
    """The model under test and the judge, which may be the same model with other settings."""
    if task.type is TaskType.HARNESS:
        yield ModelKey(task.endpoint, task.model, task.turn_settings)
    if task.evaluator is not None and task.evaluator.prompt and task.evaluator.model:
        yield ModelKey(task.endpoint, task.evaluator.model)


class ModelGivenUp(LlmError):
    """No request is sent to the model: an earlier task received an error that every request would
    receive.
    """

    def __init__(self, task: str, failure: LlmError) -> None:
        super().__init__(
            f"the model failed permanently at {task}: {failure.reason}", kind=failure.kind
        )


class ModelPool:
    """Opens the models and judges of tasks, and remembers which ones failed finally."""

    def __init__(
        self,
        tasks: Iterable[PlannedTask],
        open_llm_model: OpenModel,
        cache: TurnCache | None = None,
    ) -> None:
        model_keys = dict.fromkeys(model_key for task in tasks for model_key in _model_keys(task))
        self._models = {model_key: open_llm_model(*model_key) for model_key in model_keys}
        self._cache = cache
        self._given_up: dict[ModelKey, ModelGivenUp] = {}

    def get(self, model_key: ModelKey, trial: int = 0) -> Llm:
        """The model, with the turns of this trial in the cache. Raises: ModelGivenUp."""
        if model_key in self._given_up:
            raise self._given_up[model_key]
        llm = self._models[model_key]
        if self._cache is None:
            return llm
        return self._cache.wrap(
            llm, model_key.settings, base_url=model_key.endpoint.base_url, trial=trial
        )

    def give_up(self, model_key: ModelKey, task: str, failure: LlmError) -> None:
        """Send no more requests to this model: every one would fail like that of this task."""
        self._given_up.setdefault(model_key, ModelGivenUp(task, failure))

    async def close(self) -> None:
        """Close the connections of all models."""
        await asyncio.gather(*(model.close() for model in self._models.values()))


@dataclass(slots=True)
class AttemptJudge:
    """Sends requests to the judge of one attempt and counts their usage, also in `run_budget`."""

    models: ModelPool
    task: PlannedTask
    prices: Mapping[str, Price]
    run_budget: Budget
    budget: Budget | None = field(default=None, init=False)

    async def ask(self, model: str, system: str, prompt: str) -> str:
        """The answer of the judge within the timeout of the task. Raises JudgeError."""
        model_key = ModelKey(self.task.endpoint, model)
        self.budget = self.budget or Budget(price=self.prices.get(model), parent=self.run_budget)
        try:
            llm = self.models.get(model_key)
            turn = await turn_within(llm, system, prompt, self.task.timeout_s, self.budget)
        except ModelGivenUp as given_up:
            raise JudgeError(f"no request was sent: {given_up.reason}") from None
        except RunBudgetExhausted as exhausted:
            raise JudgeError(f"the judge was not asked: {exhausted}") from None
        except LlmError as failure:
            if failure.final:
                self.models.give_up(model_key, self.task.name, failure)
            raise JudgeError(f"the judge did not answer: {model}: {failure.reason}") from None
        return turn.message.text()

    def usage(self) -> JudgeUsage | None:
        """The usage of the judge; None without a request."""
        if self.budget is None:
            return None
        return JudgeUsage(
            input_tokens=self.budget.input_tokens,
            output_tokens=self.budget.output_tokens,
            cost_usd=self.budget.cost_usd,
        )
