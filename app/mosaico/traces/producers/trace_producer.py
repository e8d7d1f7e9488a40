"""Trace producers: harnesses that make the traces of a run by running models."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from mosaico.core.errors import NotFound
from mosaico.core.masking import secret_masker
from mosaico.core.resources import Resources
from mosaico.core.text import map_json_texts
from mosaico.harness.budget import Budget, UsedBudget
from mosaico.harness.operator_folder import read_below
from mosaico.harness.transcript import map_texts
from mosaico.llm.conversation import Llm, Provider, TurnSettings
from mosaico.llm.providers import open_llm
from mosaico.llm.retry import ATTEMPT_TIMEOUT_S
from mosaico.traces.registry import CollectionFailed, HarnessNotConfigured, NoModelAnswer
from mosaico.traces.types import Trace

HEARTBEAT_S: Final = 1.0
MAX_RESPONSE_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedTrace:
    """The trace of one attempt. `index` is its position in the plan; a settled attempt is final,
    any other is made again when the run is retried.
    """

    index: int
    trace: Trace
    is_settled: bool


@dataclass(slots=True)
class AnswerWatch:
    """Notices that no model answered any attempt of a run, which is an outage and no result."""

    has_answer: bool = False
    first_failure: str | None = None

    def add(self, *, failure: str | None) -> None:
        """Count one attempt; `failure` is why the model did not answer, None when it did."""
        if failure is None:
            self.has_answer = True
        else:
            self.first_failure = self.first_failure or failure

    def require_answer(self) -> None:
        """Raises: `CollectionFailed` when models were asked and none of them answered."""
        if self.first_failure is not None and not self.has_answer:
            raise NoModelAnswer(
                f"no model answered any task: {self.first_failure}; correct this, then retry the run"
            )


class TraceProducer(Protocol):
    """The planned attempts of a run.

    `fingerprint` identifies their content: it changes when a task is edited.
    """

    @property
    def total(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    def budget(self, used_budget: UsedBudget) -> Budget:
        """The budget of the whole run, with the usage of earlier workers counted."""
        ...

    def produce(
        self, indexes: Collection[int], budget: Budget
    ) -> Iterator[Sequence[ProducedTrace]]:
        """Make the attempts with these indexes; an empty page is a heartbeat.

        Raises: `CollectionFailed` when no model answers.
        """
        ...


def mask_trace(trace: Trace, secrets: Iterable[str]) -> Trace:
    """The trace with secrets masked in its texts, tool calls and transcript.

    The expected output is masked as well, so that it still equals an output that contains a secret.
    """
    mask = secret_masker(secrets)
    calls = trace.tool_calls and tuple(
        replace(call, arguments=map_json_texts(call.arguments, mask)) for call in trace.tool_calls
    )
    # Before the transcript is cut to its size limit: half a secret would not be recognized.
    transcript = trace.transcript and map_texts(trace.transcript, mask)
    return replace(
        trace,
        input=trace.input and mask(trace.input),
        expected_output=trace.expected_output and mask(trace.expected_output),
        output=trace.output and mask(trace.output),
        error=trace.error and mask(trace.error),
        tool_calls=calls,
        transcript=transcript,
    )


def service_secrets(resources: Resources) -> set[str]:
    """The keys of the service that a model or a tool could repeat."""
    keys = {key.reveal() for key in resources.model_keys.values()}
    server = resources.llm_server
    return keys | ({server.api_key.reveal()} if server and server.api_key else set())


def read_file(resources: Resources, name: str) -> bytes:
    """A file of the harness folder. Raises: `CollectionFailed`."""
    folder = resources.options.get("harness_dir")
    if not folder:
        raise HarnessNotConfigured(
            "no dataset folder is configured; set MOSAICO_HARNESS_DIR for the workers"
        )
    try:
        return read_below(Path(folder), name)
    except NotFound as error:
        raise CollectionFailed(error.detail, code="DATASET_NOT_FOUND") from None


def open_guarded_llm(
    resources: Resources,
    provider: Provider,
    model: str,
    *,
    base_url: str | None,
    settings: TurnSettings,
    environment: Mapping[str, str],
) -> Llm:
    """A model whose requests pass the network policy of the service."""
    # Only a run that calls a provider pays the start-up cost of its HTTP stack.
    from mosaico.core.http.async_client import outbound_async_client

    return open_llm(
        provider,
        model,
        base_url=base_url,
        settings=settings,
        environment=environment,
        http=outbound_async_client(
            timeout_s=ATTEMPT_TIMEOUT_S, max_bytes=MAX_RESPONSE_BYTES, policy=resources.outbound
        ),
    )
