"""Trace source of the harnesses: a model in a sandboxed bash, models with MCP servers, or an agent that
the operator provides as a command.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from mosaico.core.extras import require_extra
from mosaico.core.resources import Resources
from mosaico.harness.budget import Budget, UsedBudget
from mosaico.harness.harness_config import (
    AgentHarnessSettings,
    BashHarnessSettings,
    validate_harness,
)
from mosaico.llm.conversation import Provider
from mosaico.traces.producers.trace_producer import ProducedTrace, TraceProducer
from mosaico.traces.registry import (
    TRACE_SOURCES,
    CollectionFailed,
    DatasetChanged,
    NoModel,
    SourceSpec,
    TracePage,
    TraceQuery,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessSource:
    """Pages of the attempts of a run, stored as soon as they are settled.

    The cursor holds the finished attempts, the fingerprint of their content and the used budget, so
    that another worker repeats only the attempts that were in progress. Unsettled attempts come
    last: a retry of a failed run makes them again.
    """

    resources: Resources

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        producer = _open_producer(self.resources, query)
        total = producer.total
        done, used_budget = _read_cursor(cursor, producer.fingerprint)
        missing = set(range(total)) - done
        budget = producer.budget(used_budget)
        unsettled: list[ProducedTrace] = []

        def page(produced: Sequence[ProducedTrace]) -> TracePage:
            done.update(trace.index for trace in produced)
            next_cursor = f"{producer.fingerprint}:{_ranges_text(done)}:{_usage_text(budget)}"
            return TracePage(
                traces=tuple(attempt.trace for attempt in produced),
                cursor=None if len(done) == total else next_cursor,
                total=total,
                held_back=sum(trace.index not in done for trace in unsettled),
            )

        if not missing:
            yield page([])
            return
        for produced in producer.produce(missing, budget):
            unsettled += (trace for trace in produced if not trace.is_settled)
            yield page([trace for trace in produced if trace.is_settled])
        if unsettled:
            yield page(unsettled)


def _open_producer(resources: Resources, query: TraceQuery) -> TraceProducer:
    """Raises: `CollectionFailed`, or the error of an invalid file."""
    settings, dataset_ref = query.harness, query.dataset_ref
    if settings is None:
        raise NoModel(
            "the benchmark has no harness settings; set harness to a provider and a model, or to"
            " {} for an ot-bench file"
        )
    if dataset_ref is None:
        raise CollectionFailed(
            "the benchmark has no dataset; set datasetRef to a file of the harness folder, or for an"
            " agent also to an upload or langfuse:NAME",
            code="DATASET_NOT_FOUND",
        )
    mismatch = validate_harness(dataset_ref, settings)
    if mismatch:
        raise NoModel(f"the harness settings cannot be used: {mismatch}")
    # Here, because each imports its harness: 7 MiB that no process but a worker needs.
    if isinstance(settings, AgentHarnessSettings):
        from mosaico.traces.producers.agent import agent_producer

        return agent_producer(resources, query, settings)
    require_extra("harness", "bashkit-eval and ot-bench")
    if isinstance(settings, BashHarnessSettings):
        from mosaico.traces.producers.bash import bash_producer

        return bash_producer(resources, dataset_ref, settings)
    # As above.
    from mosaico.traces.producers.mcp import mcp_producer

    return mcp_producer(resources, dataset_ref, settings)


def _lock(query: TraceQuery) -> str | None:
    """Runs that share a model server, a command, or the MCP servers of one file, run one after the
    other.
    """
    settings = query.harness
    if isinstance(settings, AgentHarnessSettings):
        return f"harness:agent:{settings.command}"
    if not isinstance(settings, BashHarnessSettings):
        return f"harness:{query.dataset_ref}"
    if settings.provider is Provider.SCRIPTED:
        return None
    return f"harness:{settings.provider}:{settings.base_url or ''}"


class _Progress(NamedTuple):
    """The indexes of the finished attempts, and the budget that they used."""

    indexes: set[int]
    used_budget: UsedBudget


def _read_cursor(cursor: str | None, fingerprint: str) -> _Progress:
    """The progress of a run. Raises: `CollectionFailed` when the tasks have changed since."""
    if cursor is None:
        return _Progress(set(), UsedBudget())
    earlier_fingerprint, ranges, usage = (*cursor.split(":"), "")[:3]
    if earlier_fingerprint != fingerprint:
        raise DatasetChanged("the dataset was changed during the run; start a new run")
    bounds = [text.partition("-") for text in ranges.split(",") if text]
    input_tokens, output_tokens, dollars = (*usage.split("+"), "", "")[:3]
    return _Progress(
        {n for first, _, last in bounds for n in range(int(first), int(last or first) + 1)},
        UsedBudget(int(input_tokens or 0), int(output_tokens or 0), float(dollars or 0)),
    )


def _usage_text(budget: Budget) -> str:
    return f"{budget.known_input_tokens}+{budget.known_output_tokens}+{budget.known_usd:.12f}"


def _ranges_text(indexes: Iterable[int]) -> str:
    """Indexes as ranges: `0-12,14`. The difference of index and position is constant in a range."""
    texts = []
    for _, group in groupby(enumerate(sorted(indexes)), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in group]
        texts.append(str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}")
    return ",".join(texts)


TRACE_SOURCES.register(
    "harness",
    SourceSpec(
        title="harness",
        open=lambda resources: HarnessSource(resources=resources),
        lock=_lock,
        runs_models=True,
    ),
)
