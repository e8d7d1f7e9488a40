"""Traces that are made on the spot: by a model in a sandboxed bash, or with the servers of MCP."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from app.core.resources import Resources
from app.harness.bash.schemas import BashHarnessSettings
from app.harness.budget import Budget, UsedBudget
from app.harness.harness_config import validate_harness
from app.llm.conversation import Provider
from app.traces.bash_producer import bash_producer
from app.traces.mcp_producer import mcp_producer
from app.traces.registry import (
    TRACE_SOURCES,
    CollectionFailed,
    SourceSpec,
    TracePage,
    TraceQuery,
)
from app.traces.trace_producer import ProducedTrace, TraceProducer


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessSource:
    """Has every task tried; the cursor says which attempts are done, of which tasks, and what was
    spent.

    An attempt is stored with its page as soon as it is settled, so that a run that is killed makes
    again only those that were under way. Those without a score are stored last: whoever goes on
    with a run that failed makes them again.
    """

    resources: Resources

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        making = _ordered(self.resources, query)
        total = making.total
        done, spent = _read_cursor(cursor, making.digest)
        missing = set(range(total)) - done
        budget = making.budget(spent)

        def page(made: Sequence[ProducedTrace]) -> TracePage:
            done.update(each.place for each in made)
            ahead = f"{making.digest}:{_text_of(done)}:{_text_of_budget(budget)}"
            return TracePage(
                traces=tuple(each.trace for each in made),
                cursor=None if len(done) == total else ahead,
                total=total,
            )

        if not missing:
            yield page([])
            return
        unsettled: list[ProducedTrace] = []
        for made in making.make(missing, budget):
            unsettled += (each for each in made if not each.settled)
            yield page([each for each in made if each.settled])
        if unsettled:
            yield page(unsettled)


def _ordered(resources: Resources, query: TraceQuery) -> TraceProducer:
    """Raises: `CollectionFailed`, or what a file is found to be wrong with."""
    wanted, dataset_ref = query.harness, query.dataset_ref
    if wanted is None:
        raise CollectionFailed(
            "the benchmark orders nothing; set its harness to a provider and a model, or for a file"
            " of ot-bench to {}",
            code="NO_MODEL",
        )
    if dataset_ref is None:
        raise CollectionFailed(
            "the benchmark names no dataset; set its datasetRef to a file of the operator's folder",
            code="DATASET_NOT_FOUND",
        )
    wrong = validate_harness(dataset_ref, wanted)
    if wrong:
        raise CollectionFailed(f"the harness of the benchmark is another: {wrong}", code="NO_MODEL")
    if isinstance(wanted, BashHarnessSettings):
        return bash_producer(resources, dataset_ref, wanted)
    return mcp_producer(resources, dataset_ref, wanted)


def _lock(query: TraceQuery) -> str | None:
    """Runs that ask one server of models, or use the servers of one file, do so one after the
    other.
    """
    wanted = query.harness
    if not isinstance(wanted, BashHarnessSettings):
        return f"harness:{query.dataset_ref}"
    if wanted.provider is Provider.SCRIPTED:
        return None
    return f"harness:{wanted.provider}:{wanted.base_url or ''}"


class _Done(NamedTuple):
    """The attempts that are done, by their place in the plan, and what they took."""

    places: set[int]
    spent: UsedBudget


def _read_cursor(cursor: str | None, digest: str) -> _Done:
    """How far a run came. Raises: `CollectionFailed` when it was at work on other tasks."""
    if cursor is None:
        return _Done(set(), UsedBudget())
    before, text, amounts = (*cursor.split(":"), "")[:3]
    if before != digest:
        raise CollectionFailed(
            "the dataset was changed while the run was working on it; start a new run",
            code="DATASET_CHANGED",
        )
    stretches = [each.partition("-") for each in text.split(",") if each]
    read, written, dollars = (*amounts.split("+"), "", "")[:3]
    return _Done(
        {n for first, _, last in stretches for n in range(int(first), int(last or first) + 1)},
        UsedBudget(int(read or 0), int(written or 0), float(dollars or 0)),
    )


def _text_of_budget(budget: Budget) -> str:
    return f"{budget.known_input_tokens}+{budget.known_output_tokens}+{budget.known_usd:.12f}"


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
