"""A run of a harness as a dataset run in Langfuse, written through its SDK.

Source: SDK 5, `run_experiment`. Scores are sent one by one: servers up to 4.16 refuse the lists that
the SDK sends, which it tells nobody.
"""

import hashlib
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import httpx
from langfuse import Langfuse
from langfuse._client.resource_manager import LangfuseResourceManager
from langfuse.api import NotFoundError
from langfuse.api.core import ApiError
from opentelemetry.sdk.trace import TracerProvider

from app.core.console.terminal import print_status
from app.core.encryption import Secret
from app.core.errors import Unavailable
from app.core.http.client import outbound_client
from app.core.http.network_policy import PRIVATE_SERVERS
from app.llm.conversation import ChatMessage, MessageRole, Usage
from app.llm.providers import MissingKey

TIMEOUT_S: Final = 30.0
MAX_ANSWER: Final = 16 * 1024 * 1024
CLOUD: Final = "https://cloud.langfuse.com"


class ExportFailed(Unavailable):
    """The run is not in Langfuse; check address and keys, then run again with --resume."""

    code = "export-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseAccess:
    """A server of Langfuse and the keys of a project."""

    url: str
    public_key: str
    secret_key: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedCall:
    """A call of a tool."""

    name: str
    given: Any
    answer: Any
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedAttempt:
    """One attempt that has a score. Tasks of one `content_hash` are one item of the dataset; `model`
    is None where no model was asked, `unmet` says what was not met.
    """

    task: str
    content_hash: str
    prompt: str
    expected: str
    metadata: Mapping[str, str]
    model: str | None
    turns: int
    answer: str
    usage: Usage | None
    cost_usd: float | None
    calls: Sequence[ExportedCall]
    scores: Mapping[str, float]
    unmet: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRun:
    """A run as it is written: by which `program`, and called how."""

    program: str
    run_name: str
    title: str
    attempts: Sequence[ExportedAttempt]
    metadata: Mapping[str, str] = field(default_factory=dict)


class Exported(NamedTuple):
    """The dataset and the run that were written, and how many attempts are in it."""

    dataset: str
    run_name: str
    attempts: int


Report = TypeVar("Report")
_Report_contra = TypeVar("_Report_contra", contravariant=True)


class ExportRun(Protocol[_Report_contra]):
    """Writes one kind of run, as both harnesses do."""

    def __call__(
        self, report: _Report_contra, access: LangfuseAccess, /, *, dataset: str, now: datetime
    ) -> Exported: ...


def exporter(
    export_run: ExportRun[Report], environment: Mapping[str, str], dataset: str
) -> Callable[[Report], None]:
    """Writes a run and tells so; what it needs is looked for at once, before anything is paid.

    Raises: `MissingKey`.
    """
    access = langfuse_access(environment)

    def export(report: Report) -> None:
        done = export_run(report, access, dataset=dataset, now=datetime.now(UTC))
        print_status(
            f"{done.attempts} attempts are in Langfuse: dataset {done.dataset!r}, run"
            f" {done.run_name!r}"
        )

    return export


def langfuse_access(environment: Mapping[str, str]) -> LangfuseAccess:
    """The project that the environment names. Raises MissingKey."""
    public, secret = environment.get("LANGFUSE_PUBLIC_KEY"), environment.get("LANGFUSE_SECRET_KEY")
    if not public or not secret:
        raise MissingKey(
            "--langfuse needs the keys of a project",
            hint="set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY, and LANGFUSE_BASE_URL if it is"
            f" not {CLOUD}",
        )
    url = environment.get("LANGFUSE_BASE_URL") or environment.get("LANGFUSE_HOST") or CLOUD
    return LangfuseAccess(url=url.rstrip("/"), public_key=public, secret_key=Secret(secret))


def last_words(messages: Sequence[ChatMessage]) -> str:
    """What a model said last; empty when it said nothing."""
    said = (
        message.text() for message in reversed(messages) if message.role is MessageRole.ASSISTANT
    )
    return next(said, "")


def write_run(run: ExportedRun, access: LangfuseAccess, *, dataset: str) -> Exported:
    """Write a run; a name that is there already names the same run. Raises: ExportFailed."""
    tracers = TracerProvider(shutdown_on_exit=False)
    # On a command line the address is the choice of its user: it may well be on this machine.
    client = outbound_client(timeout_s=TIMEOUT_S, max_bytes=MAX_ANSWER, policy=PRIVATE_SERVERS)
    with client:
        sdk = Langfuse(
            public_key=access.public_key,
            secret_key=access.secret_key.reveal(),
            base_url=access.url,
            httpx_client=client,
            tracer_provider=tracers,
        )
        try:
            written = _written(sdk, run, dataset)
            for score in (score for trace_id, one in written for score in _scores(trace_id, one)):
                _post(client, access, score)
        except (ApiError, httpx.HTTPError) as error:
            status = f" ({error.status_code})" if isinstance(error, ApiError) else f": {error}"
            raise ExportFailed(
                f"Langfuse at {access.url} did not take the run{status}; check address and keys,"
                " then run again with --resume"
            ) from None
        finally:
            # The SDK would keep this client, and give it to whoever opens the same project next.
            LangfuseResourceManager.reset()
            tracers.shutdown()
    return Exported(dataset, run.run_name, len(written))


class _Written(NamedTuple):
    trace_id: str
    attempt: ExportedAttempt


def _written(sdk: Langfuse, run: ExportedRun, dataset: str) -> list[_Written]:
    """Make the items and the run of the dataset; the trace of each attempt."""
    waiting: defaultdict[str, deque[ExportedAttempt]] = defaultdict(deque)
    order = []
    for each in run.attempts:
        order.append(_item_id(dataset, each))
        waiting[order[-1]].append(each)
    tasks = {key: of[0] for key, of in waiting.items()}
    items = _items(sdk, dataset, f"Tasks of {run.program}", tasks)
    written: list[_Written] = []

    def attempt(*, item: Any, **_: Any) -> str:
        made = waiting[item.id].popleft()
        written.append(_Written(sdk.get_current_trace_id() or "", made))
        _observe(sdk, made)
        return made.answer

    sdk.run_experiment(
        name=run.program,
        run_name=run.run_name,
        description=run.title,
        data=[items[key] for key in order],
        task=attempt,
        max_concurrency=1,
        metadata=dict(run.metadata),
    )
    sdk.flush()
    return written


def _items(
    sdk: Langfuse, dataset: str, description: str, tasks: Mapping[str, ExportedAttempt]
) -> Mapping[str, Any]:
    """The items of the dataset by id, those of the tasks among them."""
    known: Mapping[str, Any] = {}
    with suppress(NotFoundError):
        known = {item.id: item for item in sdk.get_dataset(dataset).items}
    if not known:
        sdk.create_dataset(name=dataset, description=description)
    for item_id, task in tasks.items():
        if item_id not in known:
            sdk.create_dataset_item(
                dataset_name=dataset,
                id=item_id,
                input=task.prompt,
                expected_output=task.expected,
                metadata={"task": task.task, **task.metadata},
            )
    return {item.id: item for item in sdk.get_dataset(dataset).items}


def _item_id(dataset: str, made: ExportedAttempt) -> str:
    """Ids are a project's own: another dataset, or a task that was edited, needs another one."""
    known_by = hashlib.sha256(f"{dataset}/{made.content_hash}".encode()).hexdigest()[:12]
    return f"{made.task[:200]}-{known_by}"


def _observe(sdk: Langfuse, made: ExportedAttempt) -> None:
    """Tell what the model and its tools did."""
    usage: dict[str, int] | None = None
    if made.usage is not None:
        usage = {"input": made.usage.input_tokens, "output": made.usage.output_tokens}
    if made.model is not None:
        with sdk.start_as_current_observation(
            name=f"{made.turns} turns",
            as_type="generation",
            model=made.model,
            input=made.prompt,
            output=made.answer,
            usage_details=usage,
            cost_details=None if made.cost_usd is None else {"total": made.cost_usd},
        ):
            pass
    for call in made.calls:
        with sdk.start_as_current_observation(
            name=call.name,
            as_type="tool",
            input=call.given,
            output=call.answer,
            level="DEFAULT" if call.ok else "ERROR",
        ):
            pass


def _scores(trace_id: str, made: ExportedAttempt) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{trace_id}-{name}",
            "traceId": trace_id,
            "name": name,
            "value": value,
            "dataType": "NUMERIC",
            **({"comment": made.unmet} if made.unmet and name == "TASK_SCORE" else {}),
        }
        for name, value in made.scores.items()
    ]


def _post(client: httpx.Client, access: LangfuseAccess, score: Mapping[str, Any]) -> None:
    auth = (access.public_key, access.secret_key.reveal())
    client.post(f"{access.url}/api/public/scores", json=score, auth=auth).raise_for_status()
