"""The view of a benchmark that the API returns and pages show."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from mosaico.benchmarks import queries
from mosaico.benchmarks.models import Benchmark
from mosaico.benchmarks.schemas import BenchmarkView
from mosaico.core.schemas import view_of_row


def benchmark_view(session: Session, benchmark: Benchmark) -> BenchmarkView:
    """A benchmark with the agents that it evaluates and its KPIs."""
    return benchmark_views(session, [benchmark])[0]


def benchmark_views(session: Session, benchmarks: Sequence[Benchmark]) -> list[BenchmarkView]:
    """Benchmarks, read with two statements for all of them."""
    ids = [benchmark.id for benchmark in benchmarks]
    agents = queries.get_agent_ids_by_benchmark(session, ids)
    kpis = queries.get_kpis_by_benchmark(session, ids)
    return [
        view_of_row(
            BenchmarkView,
            benchmark,
            metadata=benchmark.metadata_,
            evaluates=agents.get(benchmark.id, []),
            measures=kpis.get(benchmark.id, []),
        )
        for benchmark in benchmarks
    ]
