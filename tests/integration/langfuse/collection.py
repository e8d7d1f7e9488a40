"""Collects from the Langfuse source as a worker does, without a database."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from mosaico.core.db import Database
from mosaico.core.encryption import Secret, SecretBox
from mosaico.core.network_policy import PRIVATE_SERVERS
from mosaico.core.resources import Resources
from mosaico.traces.registry import TracePage, TraceQuery, collect
from mosaico.traces.sources.langfuse.failures import LangfusePolicy
from mosaico.traces.sources.langfuse.source import LangfuseSource
from mosaico.traces.types import Trace
from tests.support.langfuse import FakeLangfuse

NOW = datetime(2026, 11, 21, tzinfo=UTC)

# Waits of milliseconds instead of seconds.
FAST_POLICY = LangfusePolicy(
    first_wait_s=0.001, longest_wait_s=0.004, poll_s=0.001, rate_limit_s=20.0
)


class CollectedPages(NamedTuple):
    """The pages of a collection without heartbeats."""

    pages: list[TracePage]

    @property
    def traces(self) -> list[Trace]:
        return [trace for page in self.pages for trace in page.traces]

    @property
    def by_item(self) -> dict[str, Trace]:
        return {trace.item_id: trace for trace in self.traces}


def make_query(langfuse: FakeLangfuse, **fields: Any) -> TraceQuery:
    fields_of_query: dict[str, Any] = {
        "dataset_ref": "support",
        "run_name": None,
        "url": langfuse.url,
        "public_key": langfuse.public_key,
        "secret_key": Secret(langfuse.secret_key),
        **fields,
    }
    return TraceQuery(**fields_of_query)


def make_resources(now: datetime = NOW) -> Resources:
    return Resources(
        db=Database("postgresql://nobody@127.0.0.1:1/none"),
        secrets=SecretBox.from_keys([base64.b64encode(bytes(range(32))).decode()]),
        data_dir=Path("/nonexistent"),
        clock=lambda: now,
        outbound=PRIVATE_SERVERS,
    )


def read_pages(
    langfuse: FakeLangfuse,
    cursor: str | None = None,
    *,
    policy: LangfusePolicy = FAST_POLICY,
    now: datetime = NOW,
    **fields: Any,
) -> Iterator[TracePage]:
    """The pages of a run."""
    query = make_query(langfuse, **fields)
    source = LangfuseSource(resources=make_resources(now), policy=policy)
    return collect(source, query, cursor)


def collect_all(langfuse: FakeLangfuse, cursor: str | None = None, **more: Any) -> CollectedPages:
    pages = list(read_pages(langfuse, cursor, **more))
    return CollectedPages([page for page in pages if page.traces or page.cursor is None])
