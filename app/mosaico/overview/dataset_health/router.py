"""The REST endpoint of the health of a dataset."""

from typing import Annotated

from fastapi import Path

from mosaico.access.deps import READ
from mosaico.core.web.deps import Res
from mosaico.core.web.routes import Router
from mosaico.overview.dataset_health.health import load_health
from mosaico.overview.dataset_health.schemas import DatasetHealth

router = Router(prefix="/benchmarks", tags=["benchmarks"])


@router.get("/{benchmarkId}/dataset-health", dependencies=READ)
def get_dataset_health(
    benchmark_id: Annotated[str, Path(alias="benchmarkId")], res: Res
) -> DatasetHealth:
    """The health of the dataset of a benchmark: items that never vary, that flip while the agent stays the same, that are
    there twice, or whose expected answer annotators call wrong; and how many items or trials a smaller drop needs.
    """
    return load_health(res.db, benchmark_id)
