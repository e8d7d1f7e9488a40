"""The page of a benchmark's dataset: where its items live, and what the newest run read of them."""

import re
import shlex
from typing import Annotated, Final

from fastapi import Path, Request, Response
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from mosaico.access.deps import READ
from mosaico.benchmarks.models import Benchmark
from mosaico.benchmarks.queries import get_benchmark
from mosaico.core.web.deps import Res
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, build_url, render_page, see_other
from mosaico.core.web.routes import Router
from mosaico.run_store.models import BenchmarkRun
from mosaico.runs.pages.traces import safe_url
from mosaico.traces.datasets.queries import find_dataset
from mosaico.traces.models import CollectedTrace, Dataset
from mosaico.traces.registry import TRACE_SOURCES

router = Router()

SHOWN_ITEMS: Final = 200
_OF_PROJECT: Final = re.compile(r"https?://.+/project/[^/]+(?=/traces/)")


@router.get("/benchmarks/{benchmarkId}/dataset", dependencies=READ)
def show_dataset_of_benchmark(
    request: Request, benchmark_id: Annotated[str, Path(alias="benchmarkId")], res: Res
) -> Response:
    """The items of the dataset of a benchmark: of one that lives here its own page, otherwise as the newest run read them."""
    with res.db.read() as session:
        benchmark = get_benchmark(session, benchmark_id)
        run = find_newest_run(session, benchmark_id)
        lives_elsewhere = has_dataset_elsewhere(benchmark, run)
        dataset = find_local_dataset(session, benchmark, run)
        traces = _list_items(session, run) if run and not dataset else []
    if dataset is not None:
        return see_other(path_of("datasets", dataset.id, "items"))
    page = path_of("benchmarks", benchmark_id)
    return render_page(
        request, "benchmark_dataset.html", title=benchmark.dataset_ref or "Dataset", nav="/benchmarks",
        api=f"/benchmarks{path_of(benchmark_id)}",
        api_parts=_parts_of_run(run) if run else {},
        steps=(Crumb("Benchmarks", "/benchmarks"), Crumb(benchmark.display_name, page)),
        benchmark=benchmark, run=run, traces=traces[:SHOWN_ITEMS], has_more=len(traces) > SHOWN_ITEMS,
        lives_elsewhere=lives_elsewhere, source_url=find_source_page(traces[0].url) if traces else None,
        command=f"mosaico items import {shlex.quote(benchmark.dataset_ref or '')} questions.csv",
    )  # fmt: skip


def _parts_of_run(run: BenchmarkRun) -> dict[str, str]:
    path = f"/benchmark-runs{path_of(run.id)}"
    return {"run": path, "results": build_url(f"{path}/results", {"limit": str(SHOWN_ITEMS)})}


def find_source_page(url: str | None) -> str | None:
    """The datasets of the Langfuse project that a trace belongs to, by the address of the trace; None for another one."""
    match = _OF_PROJECT.match(safe_url(url) or "")
    return f"{match[0]}/datasets" if match else None


def find_local_dataset(
    session: Session, benchmark: Benchmark, run: BenchmarkRun | None
) -> Dataset | None:
    """The dataset of a benchmark whose items live here; `run` is its newest one."""
    if has_dataset_elsewhere(benchmark, run):
        return None
    return find_dataset(session, benchmark.dataset_ref)


def has_dataset_elsewhere(benchmark: Benchmark, run: BenchmarkRun | None) -> bool:
    """Whether the items live in the source: that of the benchmark, or of its newest run where agents have their own."""
    source = benchmark.source or (run and run.plan and run.plan.source)
    return bool(source and TRACE_SOURCES.get(source).has_datasets)


def find_newest_run(session: Session, benchmark_id: str) -> BenchmarkRun | None:
    """The newest completed run that still has its traces."""
    statement = (
        select(BenchmarkRun)
        .where(
            BenchmarkRun.benchmark_id == benchmark_id,
            BenchmarkRun.completed_at.is_not(None),
            BenchmarkRun.purged_at.is_(None),
            BenchmarkRun.collection_id.is_not(None),
        )
        .order_by(BenchmarkRun.seq.desc())
        .limit(1)
    )
    return session.scalars(statement).one_or_none()


def _list_items(session: Session, run: BenchmarkRun) -> list[CollectedTrace]:
    """A trace of each of the first items of a run, by ID."""
    statement = (
        select(CollectedTrace)
        .ext(distinct_on(CollectedTrace.item_id))
        .where(CollectedTrace.collection_id == run.collection_id)
        .order_by(CollectedTrace.item_id, CollectedTrace.position)
        .limit(SHOWN_ITEMS + 1)
    )
    return list(session.scalars(statement))
