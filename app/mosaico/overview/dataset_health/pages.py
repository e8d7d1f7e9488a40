"""The page of the health of a dataset."""

from typing import Annotated, Final

from fastapi import Path, Request, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from mosaico.access.deps import READ
from mosaico.benchmarks.models import BENCHMARK_NAME, Benchmark
from mosaico.benchmarks.queries import get_benchmark
from mosaico.core.web.deps import Res
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import Crumb, render_page, see_other
from mosaico.core.web.routes import Router
from mosaico.overview.dataset_health.health import load_health
from mosaico.overview.dataset_health.schemas import DatasetHealth
from mosaico.run_store.models import BenchmarkRun
from mosaico.runs.pages.dataset import find_source_page, has_dataset_elsewhere
from mosaico.traces.datasets.queries import find_items, get_dataset
from mosaico.traces.models import CollectedTrace

router = Router()

MAX_BENCHMARKS: Final = 50


@router.get("/benchmarks/{benchmarkId}/dataset-health", dependencies=READ)
def show_dataset_health(
    request: Request, benchmark_id: Annotated[str, Path(alias="benchmarkId")], res: Res
) -> Response:
    """The items of the dataset of a benchmark that tell nothing or are wrong, and what to do."""
    health = load_health(res.db, benchmark_id)
    with res.db.read() as session:
        benchmark = get_benchmark(session, benchmark_id)
        run = session.get(BenchmarkRun, health.run_id) if health.run_id else None
        lives_elsewhere = has_dataset_elsewhere(benchmark, run)
        source_url = _find_source(session, run) if run and lives_elsewhere else None
        stored_items = _list_stored(session, health)
    page = path_of("benchmarks", benchmark_id)
    return render_page(
        request, "dataset_health.html", title=f"Health of {benchmark.dataset_ref or 'no dataset'}",
        nav="/benchmarks", api=f"{page}/dataset-health",
        steps=(Crumb("Benchmarks", "/benchmarks"), Crumb(benchmark.display_name, page)),
        health=health, address=page, lives_elsewhere=lives_elsewhere, source_url=source_url,
        stored_items=stored_items,
    )  # fmt: skip


@router.get("/datasets/{setId}/health", dependencies=READ)
def choose_dataset_health(
    request: Request, dataset_id: Annotated[str, Path(alias="setId")], res: Res
) -> Response:
    """The benchmarks that test a dataset: its health depends on what they measure. Of one benchmark its page."""
    with res.db.read() as session:
        dataset = get_dataset(session, dataset_id)
        statement = select(Benchmark).where(Benchmark.dataset_ref == dataset.name)
        ordered = statement.order_by(BENCHMARK_NAME, Benchmark.id).limit(MAX_BENCHMARKS)
        benchmarks = list(session.scalars(ordered))
    if len(benchmarks) == 1:
        return see_other(f"{path_of('benchmarks', benchmarks[0].id)}/dataset-health")
    return render_page(
        request, "dataset_benchmarks.html", title=f"Health of {dataset.name}", nav="/datasets",
        api=path_of("datasets", dataset_id), benchmarks=benchmarks, dataset=dataset,
        steps=(
            Crumb("Datasets", "/datasets"),
            Crumb(f"{dataset.name} v{dataset.version}", path_of("datasets", dataset_id, "items")),
        ),
    )  # fmt: skip


def _list_stored(session: Session, health: DatasetHealth) -> set[str]:
    """The listed items that the dataset has, which can be edited: a run measures items that it does not have, too."""
    if health.dataset_id is None or health.dataset_version is None:
        return set()
    item_ids = [
        *(item.item_id for item in health.constant_items),
        *(item.item_id for item in health.flipping_items),
        *(wrong.item_id for wrong in health.wrong_expectations),
    ]
    states = find_items(session, health.dataset_id, health.dataset_version, item_ids)
    # Items that ask the same are read from the dataset itself.
    same = (*health.duplicate_items, *health.contradicting_items)
    return {item_id for row in same for item_id in row.item_ids} | {
        item_id for item_id, state in states.items() if not state.is_retired
    }


def _find_source(session: Session, run: BenchmarkRun) -> str | None:
    """Where the items of a run are edited: the page of the datasets in their source."""
    of_run = select(CollectedTrace.url).where(CollectedTrace.collection_id == run.collection_id)
    return find_source_page(session.scalar(of_run.order_by(CollectedTrace.position).limit(1)))
