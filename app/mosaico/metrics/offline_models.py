"""Metrics that call a model, on files and rows: without a service and its database."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mosaico.core.console.files import UnwritableOutput
from mosaico.core.errors import Invalid
from mosaico.core.llm_server import LlmServer, load_llm_server
from mosaico.llm.types import ModelAnswer, RequestUsage
from mosaico.metrics.engine import measure_all, score_chunk
from mosaico.metrics.model_metrics import is_remote
from mosaico.metrics.types import MetricRef, TraceMeasurements
from mosaico.traces.types import Trace

if TYPE_CHECKING:
    from mosaico.llm.folder_cache import AnswerCache
    from mosaico.llm.request_budget import RequestBudget

Input = TypeVar("Input")
Output = TypeVar("Output")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmOptions:
    """The model server of metrics that call a model, and a budget.

    The server is that of the environment (`MOSAICO_LLM_BASE_URL`, `MOSAICO_LLM_API_KEY`,
    `MOSAICO_LLM_MODEL`, `MOSAICO_EMBEDDINGS_MODEL`) where nothing else is set here. `max_requests` and
    `max_usd` limit the requests of one call. `prices` are US dollars per million tokens by model, as
    `{"judge-1": {"input": 1.0, "output": 5.0}}`, for servers that do not report a cost. `cache` is the
    folder of the LLM cache.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None
    embeddings_model: str | None = None
    max_requests: int | None = None
    max_usd: float | None = None
    prices: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    cache: str | Path | None = None

    def __post_init__(self) -> None:
        for name in ("max_requests", "max_usd"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise Invalid(f"{name} {limit!r} is not a positive number")


class ModelUsage(NamedTuple):
    """The requests to one model, their tokens and their cost; `cost_usd` is None when unknown."""

    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None

    def add(self, request: RequestUsage) -> "ModelUsage":
        costs = (self.cost_usd, request.cost_usd)
        return ModelUsage(
            self.model,
            self.requests + 1,
            self.input_tokens + request.usage.input_tokens,
            self.output_tokens + request.usage.output_tokens,
            None if None in costs else sum(filter(None, costs)),
        )


@dataclass(slots=True)
class LlmUsage:
    """Usage of metrics that call a model: the requests by model, and the answers of the cache."""

    models: dict[str, ModelUsage] = field(default_factory=dict)
    cached_answers: int = 0

    def __bool__(self) -> bool:
        """Return whether a metric called a model, or read an answer of the cache."""
        return bool(self.models or self.cached_answers)

    def as_json(self) -> dict[str, Any]:
        """The document `llmUsage`; its items are those of a run in the API."""
        names = ("model", "requests", "inputTokens", "outputTokens", "costUsd")
        return {
            "items": [dict(zip(names, usage, strict=True)) for usage in self.models.values()],
            "cachedAnswers": self.cached_answers,
        }

    def describe(self) -> Iterator[str]:
        """One line for each model, and one for the cache."""
        for usage in self.models.values():
            cost = "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
            requests = "1 request" if usage.requests == 1 else f"{usage.requests:,} requests"
            yield (
                f"{usage.model}: {requests}, {usage.input_tokens:,} input and"
                f" {usage.output_tokens:,} output tokens, {cost}"
            )
        if self.cached_answers:
            yield f"answers from the cache: {self.cached_answers:,}"

    def count(self, request: RequestUsage) -> None:
        """Add the usage of a request."""
        before = self.models.get(request.model, ModelUsage(request.model, 0, 0, 0, 0.0))
        self.models[request.model] = before.add(request)


class OfflineModels:
    """Measures traces in this process, also by metrics that call a model.

    Reads the environment when the first such metric is named. `report_progress` is called every
    second while requests are sent.
    """

    def __init__(
        self,
        options: LlmOptions | None = None,
        report_progress: Callable[[LlmUsage], None] = lambda _: None,
    ) -> None:
        self._options = options or LlmOptions()
        self._report_progress = report_progress
        # Made when a metric calls a model: few do, and the modules for it take long to import.
        self._server: LlmServer | None = None
        self._budget: RequestBudget | None = None
        self.usage = LlmUsage()

    def with_models(self, refs: Iterable[MetricRef]) -> tuple[MetricRef, ...]:
        """The metrics, those that call a model with the model as an option.

        Raises: `LlmNotConfigured`, `Misconfigured`.
        """
        return tuple(self._with_model(ref) if is_remote(ref) else ref for ref in refs)

    def measure_all(
        self, traces: Iterable[Trace], refs: Sequence[MetricRef]
    ) -> Iterator[TraceMeasurements]:
        """Rows in the order of the traces, computed lazily; the metrics are those of `with_models`.

        Raises: the errors of `mosaico.llm.errors` when no request can succeed, `LlmBudgetExhausted`.
        """
        remote = tuple(ref for ref in refs if is_remote(ref))
        if not remote:
            yield from measure_all(traces, refs)
            return
        # Few commands call a model, and these modules take long to import.
        from mosaico.metrics.remote_measurement import TRACE_BATCH_SIZE, merge_rows

        local = tuple(ref for ref in refs if ref not in remote)
        iterator = iter(traces)
        with self._open_measurement() as measure_remote:
            while batch := list(islice(iterator, TRACE_BATCH_SIZE)):
                pairs = zip(score_chunk(batch, local), measure_remote(batch, remote), strict=True)
                yield from (merge_rows(refs, local, *rows) for rows in pairs)

    def _with_model(self, ref: MetricRef) -> MetricRef:
        # Few commands call a model, and these modules take long to import.
        from mosaico.metrics.remote_measurement import with_model

        if self._server is None:
            self._server = _chosen_server(self._options)
        return with_model(ref, self._server)

    @contextmanager
    def _open_measurement(
        self,
    ) -> Iterator[Callable[[Sequence[Trace], Sequence[MetricRef]], list[TraceMeasurements]]]:
        # Few commands call a model, and these modules take long to import.
        from mosaico.core.network_policy import ALLOW_ALL_ADDRESSES
        from mosaico.llm.completion_pool import CompletionPool
        from mosaico.llm.completions import open_completions
        from mosaico.llm.folder_cache import AnswerCache
        from mosaico.llm.prices import parse_prices
        from mosaico.llm.request_budget import BudgetedCompleter, RequestBudget
        from mosaico.llm.retry import COMPLETION_RETRIES
        from mosaico.metrics.completion_fetcher import CompletionFetcher
        from mosaico.metrics.remote_measurement import RemoteMeasurement

        assert self._server is not None, "with_models comes first"
        options = self._options
        if self._budget is None:
            self._budget = RequestBudget(
                max_requests=options.max_requests,
                max_usd=options.max_usd,
                prices=parse_prices(options.prices),
            )
        folder = AnswerCache(Path(options.cache or default_cache()), time.time())
        folder.evict_expired()
        store = _CountedAnswers(folder, self.usage)
        client = open_completions(
            self._server, policy=ALLOW_ALL_ADDRESSES, retries=COMPLETION_RETRIES
        )
        scope = self._server.base_url
        with CompletionPool(BudgetedCompleter(client, self._budget)) as pool:
            yield RemoteMeasurement(
                cache_scope=scope,
                store=store,
                fetcher=CompletionFetcher(store, scope, pool),
                call_provider=_call_provider,
                checkpoint=lambda: self._report_progress(self.usage),
            ).rows


def default_cache() -> Path:
    """The folder of the LLM cache of this user."""
    # Only here: few commands call a model.
    import platformdirs

    return platformdirs.user_cache_path("mosaico") / "llm"


def _chosen_server(options: LlmOptions) -> LlmServer | None:
    # As above.
    from mosaico.core.encryption import Secret

    if options.base_url is None:
        server = load_llm_server()
        if server is None:
            return None
    else:
        # The key of one server is not sent to another one.
        server = LlmServer(base_url=options.base_url.rstrip("/"))
    return LlmServer(
        base_url=server.base_url,
        api_key=Secret(options.api_key) if options.api_key else server.api_key,
        model=options.model or server.model,
        embeddings_model=options.embeddings_model or server.embeddings_model,
    )


class _CountedAnswers:
    """Answers in a folder, counted. Provides `AnswerStore`."""

    def __init__(self, folder: "AnswerCache", usage: LlmUsage) -> None:
        self._folder = folder
        self._usage = usage

    def get(self, keys: Sequence[bytes]) -> dict[bytes, ModelAnswer]:
        answers = self._folder.get(keys)
        self._usage.cached_answers += len(answers)
        return answers

    def put(self, answers: Mapping[bytes, ModelAnswer], usages: Sequence[RequestUsage]) -> None:
        for usage in usages:
            self._usage.count(usage)
        try:
            self._folder.put(answers)
        except OSError as error:
            raise UnwritableOutput(f"the LLM cache cannot be written: {error}") from None

    def evict(self, keys: Sequence[bytes]) -> None:
        self._folder.evict(keys)


def _call_provider(
    function: Callable[[MetricRef, Sequence[Input]], list[Output]],
    ref: MetricRef,
    inputs: Sequence[Input],
) -> list[Output]:
    return function(ref, inputs)
