"""What every trace source promises, shown on each source that reads traces of others.

A new source joins with one function that fills it with traces and one row in `CASES`.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from sqlalchemy import select

from mosaico.core.resources import Resources
from mosaico.llm.conversation import ChatMessage, MessageRole, TextBlock, user_message
from mosaico.traces.execution.answers import AgentAnswer, trace_of_answer
from mosaico.traces.execution.items import ItemAttempt
from mosaico.traces.models import Collection
from mosaico.traces.producers import bash_traces, mcp_traces
from mosaico.traces.registry import TRACE_SOURCES, CollectionFailed, TracePage, TraceQuery, collect
from mosaico.traces.service import create_collection, store_page
from mosaico.traces.stored_traces import read_traces
from mosaico.traces.types import DatasetItem, Trace, TraceOutcome
from tests.contracts.source_cases import (
    CASES,
    FULL,
    LANGFUSE_CASES,
    NOW,
    Case,
    langfuse_cases,
)
from tests.support import bash_eval, mcp_bench
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.service import JSON


@pytest.fixture(scope="session")
def langfuse_servers() -> Iterator[dict[str, FakeLangfuse]]:
    """A server of each API version."""
    with ExitStack() as stack:
        yield {
            "v4": stack.enter_context(run_fake_langfuse()),
            "v3": stack.enter_context(run_fake_langfuse("v3")),
        }


@pytest.fixture(params=[*CASES, *LANGFUSE_CASES])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Each source, without traces; its pages have 100 traces."""
    if request.param in CASES:
        return CASES[request.param]
    _, api, kind = request.param.split()
    servers: dict[str, FakeLangfuse] = request.getfixturevalue("langfuse_servers")
    servers[api].reset()
    monkeypatch.setattr("mosaico.traces.sources.langfuse.v4_windows.SPANS_PER_PAGE", 100)
    return langfuse_cases(servers[api])[kind]


def read(
    resources: Resources, case: Case, query: TraceQuery, cursor: str | None = None
) -> list[TracePage]:
    """The pages of a source, without those that only show that it is alive. The page of an upload has the
    traces of its collection, and is the last one, as a run takes them over.
    """
    pages = []
    for page in collect(TRACE_SOURCES.get(case.name).open(resources), query, cursor):
        if page.revision:
            return [with_stored_traces(resources, page)]
        if page.traces or page.cursor is None:
            pages.append(page)
    return pages


def with_stored_traces(resources: Resources, page: TracePage) -> TracePage:
    with resources.db.read() as session:
        statement = select(Collection.id).where(Collection.revision == page.revision)
        collection_id = session.scalars(statement).one()
    return replace(page, traces=tuple(collected(resources, collection_id)), cursor=None)


def traces_of(pages: list[TracePage]) -> list[Trace]:
    return [trace for page in pages for trace in page.traces]


def collected(resources: Resources, collection_id: int) -> list[Trace]:
    with resources.db.read() as session:
        return list(read_traces(session, collection_id, 0, 10_000))


@pytest.mark.usefixtures("plugins")
def test_contract__has_every_source_that_reads_traces() -> None:
    reading = {name for name in TRACE_SOURCES.names() if not TRACE_SOURCES.get(name).runs_models}
    assert {*(case.name for case in CASES.values()), "langfuse"} == reading


def test_trace_source__returns_each_trace_once_in_order(
    case: Case, service_resources: Resources
) -> None:
    query = case.fill(service_resources, [FULL, *case.lines()])
    pages = read(service_resources, case, query)
    traces = traces_of(pages)
    ids = case.arrange([case.id_of(line["traceId"]) for line in (FULL, *case.lines())])
    assert [trace.trace_id for trace in traces] == ids
    full_traces = [trace for trace in traces if trace.trace_id == case.full_trace.trace_id]
    assert full_traces == [case.full_trace] * (case.full_trace.trace_id in ids)
    assert [page.cursor is None for page in pages] == [False] * (len(pages) - 1) + [True]
    assert {page.total for page in pages} <= {None, len(ids)}
    # A source with one page would resume nowhere. An upload is taken over as a whole.
    assert len(pages) > 1 or pages[0].revision


def test_trace_source__empty_answer_differs_from_one_that_was_not_recorded(
    case: Case, service_resources: Resources
) -> None:
    lines: list[JSON] = [{"traceId": "t-0", "input": "q", "output": ""}]
    if case.records_content:
        lines.append({"traceId": "t-1"})
    query = case.fill(service_resources, lines)
    traces = traces_of(read(service_resources, case, query))
    assert {trace.outcome for trace in traces} == {TraceOutcome.SCORED}
    outputs = {trace.trace_id: trace.output for trace in traces}
    expected = {case.id_of("t-0"): "", case.id_of("t-1"): None}
    assert outputs == expected if case.records_content else [*outputs.values()] == [""]


def test_harnesses__agent_that_says_nothing_has_an_empty_answer() -> None:
    """The source `harness`: ot-bench, bashkit-eval, and a command of the operator."""
    silence = ChatMessage(role=MessageRole.ASSISTANT, content=(TextBlock(text=""),))
    bench = mcp_bench.run(mcp_bench.harness_task(), model=mcp_bench.scripted(mcp_bench.says("")))
    attempt = bash_eval.trace(messages=(user_message("Do it."), silence))
    evaluated = bash_eval.result(bash_eval.task("exit_code:0"), False, trace=attempt)
    traces = [
        mcp_traces.trace_of(bench.result),
        bash_traces.trace_of(evaluated),
        trace_of_answer(ItemAttempt(DatasetItem(id="q", input="q"), 0), AgentAnswer(), 1.0),
    ]
    assert [(t.outcome, t.output) for t in traces] == [(TraceOutcome.SCORED, "")] * 3


def test_trace_source__missing_dataset_fails_with_a_code(
    case: Case, service_resources: Resources
) -> None:
    filled_query = case.fill(service_resources, [{"traceId": "t-0"}])
    source = TRACE_SOURCES.get(case.name).open(service_resources)
    for name in ("absent", None):
        query = replace(filled_query, dataset_ref=name, production=None)
        with pytest.raises(CollectionFailed) as caught:
            next(iter(source.pages(query, None)))
        assert caught.value.error_code == "DATASET_NOT_FOUND"


def test_collection__interrupted_and_resumed_contains_each_trace_once(
    case: Case, service_resources: Resources
) -> None:
    query = case.fill(service_resources, [FULL, *case.lines()])
    db = service_resources.db
    with db.begin() as session:
        collection_id = create_collection(session, case.name, {}).id
    [first, *_] = pages = read(service_resources, case, query)
    for page_number, page in enumerate(pages[:-1], start=1):
        again = read(service_resources, case, query, page.cursor)
        assert traces_of(again) == traces_of(pages[page_number:])
    for page in (first, first):  # the worker died before it knew that the page was stored
        with db.begin() as session:
            collection = session.get_one(Collection, collection_id)
            collection_id = store_page(session, collection, page, NOW).id
    for page in read(service_resources, case, query, first.cursor):
        with db.begin() as session:
            collection = session.get_one(Collection, collection_id)
            collection_id = store_page(session, collection, page, NOW).id
    assert collected(service_resources, collection_id) == traces_of(pages)
    with db.read() as session:
        collection = session.get_one(Collection, collection_id)
        assert collection.trace_count == len(traces_of(pages))
        assert collection.completed_at is not None
