"""Writes a harness run to Langfuse as a dataset run, through the Langfuse SDK.

Source: SDK 5, `run_experiment`. Scores are sent one by one over REST, because servers up to 4.16
silently drop the score batches of the SDK.
"""

import hashlib
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import httpx

from mosaico.core.console.terminal import print_status
from mosaico.core.encryption import Secret
from mosaico.core.errors import Unavailable
from mosaico.core.extras import MissingPackages, describe_missing
from mosaico.core.http.client import outbound_client
from mosaico.core.network_policy import PRIVATE_SERVERS
from mosaico.llm.conversation import Usage
from mosaico.llm.providers import MissingKey

try:
    from langfuse import Langfuse
    from langfuse.api import NotFoundError
    from langfuse.api.core import ApiError
    from opentelemetry.sdk.trace import TracerProvider
except ModuleNotFoundError:
    raise MissingPackages(
        describe_missing("langfuse", "datasets and experiments of Langfuse")
    ) from None

NEWEST_DATASETS: Final = 50
TIMEOUT_S: Final = 30.0
MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
CLOUD: Final = "https://cloud.langfuse.com"


class ExportFailed(Unavailable):
    """Langfuse did not accept the run; check address and keys, then run again with --resume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseProject:
    """A Langfuse server and the keys of one project."""

    url: str
    public_key: str
    secret_key: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedCall:
    """One tool call."""

    name: str
    arguments: Any
    output: Any
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedAttempt:
    """One scored attempt.

    Attempts with the same `content_hash` belong to one dataset item, or to the existing item
    `item_id`. `model` is None for an attempt without a model; `failures` becomes the comment of
    TASK_SCORE.
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
    failures: str = ""
    item_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRun:
    """A run, the program that made it, and its name in Langfuse."""

    program: str
    run_name: str
    title: str
    attempts: Sequence[ExportedAttempt]
    metadata: Mapping[str, str] = field(default_factory=dict)


class WrittenAttempt(NamedTuple):
    """An attempt and the ID of its trace in Langfuse."""

    trace_id: str
    attempt: ExportedAttempt


class ExportSummary(NamedTuple):
    """The dataset and dataset run that were written, and the number of attempts."""

    dataset: str
    run_name: str
    attempts: int


Report = TypeVar("Report")
_Report_contra = TypeVar("_Report_contra", contravariant=True)


class ExportRun(Protocol[_Report_contra]):
    """Writes the reports of one harness."""

    def __call__(
        self, report: _Report_contra, project: LangfuseProject, /, *, dataset: str, now: datetime
    ) -> ExportSummary: ...


def exporter(
    export_run: ExportRun[Report], environment: Mapping[str, str], dataset: str
) -> Callable[[Report], None]:
    """A function that writes a run and prints a summary.

    The keys are read at once, so that a missing key fails before any model request is paid for.
    Raises: `MissingKey`.
    """
    project = langfuse_project(environment)

    def export(report: Report) -> None:
        summary = export_run(report, project, dataset=dataset, now=datetime.now(UTC))
        print_status(
            f"{summary.attempts} attempts are in Langfuse: dataset {summary.dataset!r}, run"
            f" {summary.run_name!r}"
        )

    return export


def langfuse_project(environment: Mapping[str, str]) -> LangfuseProject:
    """The project that the environment variables name. Raises MissingKey."""
    public_key = environment.get("LANGFUSE_PUBLIC_KEY")
    secret_key = environment.get("LANGFUSE_SECRET_KEY")
    if not public_key or not secret_key:
        raise MissingKey(
            "the keys of a Langfuse project are missing",
            hint="set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY, and LANGFUSE_BASE_URL unless the"
            f" server is {CLOUD}",
        )
    url = environment.get("LANGFUSE_BASE_URL") or environment.get("LANGFUSE_HOST") or CLOUD
    return LangfuseProject(
        url=url.rstrip("/"), public_key=public_key, secret_key=Secret(secret_key)
    )


def write_run(run: ExportedRun, project: LangfuseProject, *, dataset: str) -> ExportSummary:
    """Write a run; a run name that exists already extends that run. Raises: ExportFailed."""
    return ExportSummary(dataset, run.run_name, len(write_attempts(run, project, dataset=dataset)))


def write_attempts(
    run: ExportedRun, project: LangfuseProject, *, dataset: str
) -> list[WrittenAttempt]:
    """Write a run as `write_run`; the attempts with the IDs of their traces. Raises: ExportFailed."""
    connection = connect(project)
    try:
        written = _write_items_and_attempts(connection.sdk, run, dataset)
        for trace_id, attempt in written:
            for score in _scores(trace_id, attempt):
                _post_score(connection.http, project, score)
    except (ApiError, httpx.HTTPError) as error:
        raise ExportFailed(
            f"Langfuse at {project.url} did not accept the run: {describe_api_error(error)}; check"
            " address and keys, then run again with --resume"
        ) from None
    return written


def read_dataset_items(project: LangfuseProject, dataset: str) -> list[dict[str, Any]]:
    """The active items of a dataset, as rows of `/dataset-items`. Raises: ExportFailed."""
    try:
        items = connect(project).sdk.get_dataset(dataset).items
    except (ApiError, NotFoundError, httpx.HTTPError) as error:
        raise ExportFailed(
            f"the dataset {dataset!r} cannot be read from Langfuse at {project.url}:"
            f" {describe_api_error(error)}; check its name and the keys in LANGFUSE_PUBLIC_KEY and"
            " LANGFUSE_SECRET_KEY"
        ) from None
    return [
        {
            "id": item.id,
            "input": item.input,
            "expectedOutput": item.expected_output,
            "metadata": item.metadata,
        }
        for item in items
        if item.status == "ACTIVE"
    ]


def list_datasets(project: LangfuseProject) -> list[str]:
    """The names of the newest 50 datasets of a project, newest first. Raises: ExportFailed."""
    try:
        datasets = connect(project).sdk.api.datasets.list(limit=NEWEST_DATASETS).data
    except (ApiError, NotFoundError, httpx.HTTPError) as error:
        raise ExportFailed(
            f"the datasets of Langfuse at {project.url} cannot be listed: {describe_api_error(error)}; check the keys"
            " in LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"
        ) from None
    newest_first = sorted(datasets, key=lambda dataset: dataset.created_at, reverse=True)
    return [dataset.name for dataset in newest_first]


class LangfuseConnection(NamedTuple):
    """The SDK of a project, and the HTTP client beside it."""

    sdk: Langfuse
    http: httpx.Client


def describe_api_error(error: Exception) -> str:
    """The status of a refused request, or why there is no answer."""
    return f"status {error.status_code}" if isinstance(error, ApiError) else str(error)


@cache
def connect(project: LangfuseProject) -> LangfuseConnection:
    """The SDK of a project, open until the process ends.

    The SDK keeps one client per public key for the life of the process and cannot replace it, so
    the connection is never closed and is used for every run of the project.
    """
    # On a command line the user chooses the address, so it may be a server on this machine.
    http = outbound_client(
        timeout_s=TIMEOUT_S, max_bytes=MAX_RESPONSE_BYTES, policy=PRIVATE_SERVERS
    )
    sdk = Langfuse(
        public_key=project.public_key,
        secret_key=project.secret_key.reveal(),
        base_url=project.url,
        httpx_client=http,
        # A provider of its own: the global one would also export the spans of other libraries.
        tracer_provider=TracerProvider(shutdown_on_exit=False),
    )
    return LangfuseConnection(sdk, http)


def _write_items_and_attempts(
    sdk: Langfuse, run: ExportedRun, dataset: str
) -> list[WrittenAttempt]:
    """Write the items and the dataset run; the trace ID of each attempt."""
    attempts_by_item: defaultdict[str, deque[ExportedAttempt]] = defaultdict(deque)
    item_ids = []
    for attempt in run.attempts:
        item_ids.append(_item_id(dataset, attempt))
        attempts_by_item[item_ids[-1]].append(attempt)
    tasks = {item_id: attempts[0] for item_id, attempts in attempts_by_item.items()}
    items = _items(sdk, dataset, f"Tasks of {run.program}", tasks)
    written: list[WrittenAttempt] = []

    def write_next(*, item: Any, **_: Any) -> str:
        attempt = attempts_by_item[item.id].popleft()
        written.append(WrittenAttempt(sdk.get_current_trace_id() or "", attempt))
        _write_observations(sdk, attempt)
        return attempt.answer

    sdk.run_experiment(
        name=run.program,
        run_name=run.run_name,
        description=run.title,
        data=[items[item_id] for item_id in item_ids],
        task=write_next,
        max_concurrency=1,
        metadata=dict(run.metadata),
    )
    sdk.flush()
    return written


def _items(
    sdk: Langfuse, dataset: str, description: str, tasks: Mapping[str, ExportedAttempt]
) -> Mapping[str, Any]:
    """The items of the dataset by ID; missing items and a missing dataset are created."""
    existing: Mapping[str, Any] = {}
    with suppress(NotFoundError):
        existing = {item.id: item for item in sdk.get_dataset(dataset).items}
    if not existing:
        sdk.create_dataset(name=dataset, description=description)
    for item_id, attempt in tasks.items():
        if item_id not in existing:
            sdk.create_dataset_item(
                dataset_name=dataset,
                id=item_id,
                input=attempt.prompt,
                expected_output=attempt.expected,
                metadata={"task": attempt.task, **attempt.metadata},
            )
    return {item.id: item for item in sdk.get_dataset(dataset).items}


def _item_id(dataset: str, attempt: ExportedAttempt) -> str:
    """Item IDs are unique per project, so the ID hashes the dataset and the content of the task."""
    if attempt.item_id is not None:
        return attempt.item_id
    digest = hashlib.sha256(f"{dataset}/{attempt.content_hash}".encode()).hexdigest()[:12]
    return f"{attempt.task[:200]}-{digest}"


def _write_observations(sdk: Langfuse, attempt: ExportedAttempt) -> None:
    """Write the model turns as one generation, and each tool call."""
    usage: dict[str, int] | None = None
    if attempt.usage is not None:
        usage = {"input": attempt.usage.input_tokens, "output": attempt.usage.output_tokens}
    if attempt.model is not None:
        with sdk.start_as_current_observation(
            name=f"{attempt.turns} turns",
            as_type="generation",
            model=attempt.model,
            input=attempt.prompt,
            output=attempt.answer,
            usage_details=usage,
            cost_details=None if attempt.cost_usd is None else {"total": attempt.cost_usd},
        ):
            pass
    for call in attempt.calls:
        with sdk.start_as_current_observation(
            name=call.name,
            as_type="tool",
            input=call.arguments,
            output=call.output,
            level="DEFAULT" if call.ok else "ERROR",
        ):
            pass


def _scores(trace_id: str, attempt: ExportedAttempt) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{trace_id}-{name}",
            "traceId": trace_id,
            "name": name,
            "value": score,
            "dataType": "NUMERIC",
            **({"comment": attempt.failures} if attempt.failures and name == "TASK_SCORE" else {}),
        }
        for name, score in attempt.scores.items()
    ]


def _post_score(client: httpx.Client, project: LangfuseProject, score: Mapping[str, Any]) -> None:
    auth = (project.public_key, project.secret_key.reveal())
    client.post(f"{project.url}/api/public/scores", json=score, auth=auth).raise_for_status()
