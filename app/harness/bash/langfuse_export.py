"""A run of bash tasks as a dataset run in Langfuse, written through its SDK.

Source: SDK 5, `run_experiment`. Scores are sent one by one: servers up to 4.16 refuse the lists that
the SDK sends, which it tells nobody.
"""

import hashlib
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import httpx
from langfuse import Langfuse
from langfuse._client.resource_manager import LangfuseResourceManager
from langfuse.api import NotFoundError
from langfuse.api.core import ApiError
from opentelemetry.sdk.trace import TracerProvider

from app.core.addresses import OWN_SERVERS
from app.core.errors import Unavailable
from app.core.http import outbound_client
from app.core.secrets import Secret
from app.harness.bash.recordings import file_stem
from app.harness.bash.types import EvalReport, EvalResult, EvalTask
from app.harness.llm.conversation import Role
from app.harness.llm.providers import MissingKey

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


class Exported(NamedTuple):
    """The dataset and the run that were written, and how many attempts are in it."""

    dataset: str
    run_name: str
    attempts: int


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


def export_run(
    report: EvalReport, access: LangfuseAccess, *, dataset: str, now: datetime
) -> Exported:
    """Write the attempts that have a score; the others say nothing of the model. A run that was
    resumed becomes another one: `now` is part of its name.

    Raises: ExportFailed.
    """
    report = replace(report, timestamp=f"{now:%Y-%m-%dT%H:%M:%SZ}")
    scored = [each for each in report.results if each.trace and each.score]
    tracers = TracerProvider(shutdown_on_exit=False)
    # On a command line the address is the choice of its user: it may well be on this machine.
    client = outbound_client(timeout_s=TIMEOUT_S, max_bytes=MAX_ANSWER, policy=OWN_SERVERS)
    with client:
        sdk = Langfuse(
            public_key=access.public_key,
            secret_key=access.secret_key.reveal(),
            base_url=access.url,
            httpx_client=client,
            tracer_provider=tracers,
        )
        try:
            written = _written(sdk, report, scored, dataset)
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
    return Exported(dataset, file_stem(report), len(written))


class _Written(NamedTuple):
    trace_id: str
    result: EvalResult


def _written(
    sdk: Langfuse, report: EvalReport, results: Iterable[EvalResult], dataset: str
) -> list[_Written]:
    """Make the items and the run of the dataset; the trace of each attempt."""
    waiting: defaultdict[str, deque[EvalResult]] = defaultdict(deque)
    order = []
    for result in results:
        order.append(_item_id(dataset, result.task))
        waiting[order[-1]].append(result)
    items = _items(sdk, dataset, {key: of[0].task for key, of in waiting.items()})
    written: list[_Written] = []

    def attempt(*, item: Any, **_: Any) -> str:
        result = waiting[item.id].popleft()
        written.append(_Written(sdk.get_current_trace_id() or "", result))
        return _observed(sdk, report.model, result)

    sdk.run_experiment(
        name="bashkit-eval",
        run_name=file_stem(report),
        description=report.title(),
        data=[items[key] for key in order],
        task=attempt,
        max_concurrency=1,
        metadata={"provider": report.provider, "model": report.model},
    )
    sdk.flush()
    return written


def _items(sdk: Langfuse, dataset: str, tasks: Mapping[str, EvalTask]) -> Mapping[str, Any]:
    """The items of the dataset by id, those of the tasks among them."""
    known: Mapping[str, Any] = {}
    with suppress(NotFoundError):
        known = {item.id: item for item in sdk.get_dataset(dataset).items}
    if not known:
        sdk.create_dataset(name=dataset, description="Tasks of bashkit-eval")
    for item_id, task in tasks.items():
        if item_id not in known:
            sdk.create_dataset_item(
                dataset_name=dataset,
                id=item_id,
                input=task.prompt,
                expected_output="\n".join(each.check for each in task.expectations),
                metadata={"task": task.id, "category": task.category},
            )
    return {item.id: item for item in sdk.get_dataset(dataset).items}


def _item_id(dataset: str, task: EvalTask) -> str:
    """Ids are a project's own: another dataset, or a task that was edited, needs another one."""
    known_by = hashlib.sha256(f"{dataset}/{task.content_hash()}".encode()).hexdigest()[:12]
    return f"{task.id[:200]}-{known_by}"


def _observed(sdk: Langfuse, model: str, result: EvalResult) -> str:
    """Tell what the model and its tool did; returns the last words of the model."""
    trace = result.trace
    assert trace is not None
    said = [message for message in trace.messages if message.role is Role.ASSISTANT]
    answer = said[-1].text() if said else ""
    usage: dict[str, int] = {}
    if trace.total_input_tokens is not None and trace.total_output_tokens is not None:
        usage = {"input": trace.total_input_tokens, "output": trace.total_output_tokens}
    with sdk.start_as_current_observation(
        name=f"{trace.turns} turns",
        as_type="generation",
        model=model,
        input=result.task.prompt,
        output=answer,
        usage_details=usage or None,
        cost_details=None if trace.cost_usd is None else {"total": trace.cost_usd},
    ):
        pass
    for call in trace.tool_calls:
        with sdk.start_as_current_observation(
            name="bash",
            as_type="tool",
            input={"commands": call.commands},
            output={"stdout": call.stdout, "stderr": call.stderr, "exitCode": call.exit_code},
            level="DEFAULT" if call.exit_code == 0 else "ERROR",
        ):
            pass
    return answer


def _scores(trace_id: str, result: EvalResult) -> list[dict[str, Any]]:
    trace, score = result.trace, result.score
    assert trace is not None
    assert score is not None
    values = {
        "TASK_SCORE": score.rate(),
        "TASK_PASSED": float(score.all_passed()),
        "NATURAL_STOP": float(trace.natural_stop),
        "DURATION_MS": float(trace.duration_ms),
    }
    unmet = "; ".join(f"{each.check}: {each.detail}" for each in score.results if not each.passed)
    return [
        {
            "id": f"{trace_id}-{name}",
            "traceId": trace_id,
            "name": name,
            "value": value,
            "dataType": "NUMERIC",
            **({"comment": unmet} if unmet and name == "TASK_SCORE" else {}),
        }
        for name, value in values.items()
    ]


def _post(client: httpx.Client, access: LangfuseAccess, score: Mapping[str, Any]) -> None:
    auth = (access.public_key, access.secret_key.reveal())
    client.post(f"{access.url}/api/public/scores", json=score, auth=auth).raise_for_status()
