"""What the traces of a run were beside their metrics: what they took, their tags, tools and ends."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from app.comparison.item_matrix import (
    MOST_ITEMS,
    REVISION,
    ROWS_AT_ONCE,
    ItemRow,
    ItemTable,
    table_of_rows,
)
from app.results.models import BenchmarkRun
from app.traces.models import CollectedTrace
from app.traces.types import Outcome

USAGE = ("latency_ms", "tokens", "cost_usd")
# What fewer items than all have in common is among the features that most of them have.
MOST_FEATURES = 500
MOST_TRACES_OF_ITEM = 3

TRAIT_ROWS = text(
    f"""
    WITH kept AS (
        SELECT trace.item_id
        FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
        WHERE run.seq = ANY(:runs)
        GROUP BY trace.item_id ORDER BY md5(trace.item_id), trace.item_id COLLATE "C" LIMIT :most
    )
    SELECT trace.item_id, {REVISION}, trace.tags, trace.outcome,
           jsonb_path_query_array(trace.tool_calls, '$[*].name'),
           trace.latency_ms, trace.input_tokens + trace.output_tokens, trace.cost_usd
    FROM benchmark_runs AS run JOIN collected_traces AS trace USING (collection_id)
    WHERE run.seq = ANY(:runs) AND trace.item_id IN (SELECT item_id FROM kept)
    ORDER BY trace.item_id COLLATE "C", run.seq, trace.trial, trace.position
    """  # noqa: S608 - only constants
)


class Traits(NamedTuple):
    """What each item took, and the items of each feature (`tag:…`, `tool:…`, `ended:…`)."""

    usage: ItemTable
    features: dict[str, frozenset[str]]


class TraitRow(NamedTuple):
    """One trace; `usage` is in the order of `USAGE`."""

    item_id: str
    revision: str
    tags: Sequence[str]
    outcome: Outcome
    tools: Sequence[str]
    usage: Sequence[float | None]


class Link(NamedTuple):
    """A trace of an item, and where it can be looked at."""

    item_id: str
    trace_id: str
    url: str | None


def traits_of_runs(
    session: Session, run_seqs: Sequence[int], *, cluster_field: str | None = None
) -> Traits:
    """The same items that `items_of_runs` reads, row by row."""
    session.execute(text("SET LOCAL statement_timeout = 0"))
    asked = {"runs": list(run_seqs), "most": MOST_ITEMS}
    found = session.execute(TRAIT_ROWS.execution_options(yield_per=ROWS_AT_ONCE), asked)
    return traits_of_rows((_trait(*row) for row in found), cluster_field=cluster_field)


def traits_of_rows(rows: Iterable[TraitRow], *, cluster_field: str | None = None) -> Traits:
    """The same from rows in the order of their items."""
    features: dict[str, set[str]] = {}
    noted = _noted(rows, features)
    usage = table_of_rows(noted, {0: USAGE}, USAGE, cluster_field=cluster_field)
    frequent = sorted(features, key=lambda name: (-len(features[name]), name))[:MOST_FEATURES]
    return Traits(usage, {name: frozenset(features[name]) for name in frequent})


def links_of_items(session: Session, run: BenchmarkRun, items: Sequence[str]) -> list[Link]:
    """The first traces of some items."""
    statement = (
        select(CollectedTrace.item_id, CollectedTrace.trace_id, CollectedTrace.url)
        .where(CollectedTrace.collection_id == run.collection_id, CollectedTrace.item_id.in_(items))
        .order_by(CollectedTrace.item_id, CollectedTrace.trial, CollectedTrace.position)
    )
    found: dict[str, list[Link]] = {}
    for row in session.execute(statement):
        found.setdefault(row.item_id, []).append(Link(*row))
    return [link for links in found.values() for link in links[:MOST_TRACES_OF_ITEM]]


def _noted(rows: Iterable[TraitRow], features: dict[str, set[str]]) -> Iterator[ItemRow]:
    for row in rows:
        names = [*(f"tag:{tag}" for tag in row.tags), *(f"tool:{tool}" for tool in row.tools)]
        if row.outcome is not Outcome.SCORED:
            names.append(f"ended:{row.outcome}")
        for name in names:
            features.setdefault(name, set()).add(row.item_id)
        yield ItemRow(0, row.item_id, row.revision, list(row.tags), list(row.usage))


def _trait(
    item_id: str, revision: str, tags: list[str], outcome: str, tools: Any, *usage: float | None
) -> TraitRow:
    return TraitRow(item_id, revision, tags, Outcome(outcome), tools or [], usage)
