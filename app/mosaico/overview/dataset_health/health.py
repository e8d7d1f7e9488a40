"""Measures the health of the dataset of a benchmark, in a child process."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy.orm import Session

from mosaico.annotations.queries import list_wrong_expected
from mosaico.annotations.schemas import WrongExpectation
from mosaico.annotations.summary import list_wrong_expectations
from mosaico.benchmarks.models import Benchmark
from mosaico.benchmarks.queries import get_benchmark
from mosaico.comparison import power
from mosaico.comparison.child_process import query_in_child
from mosaico.comparison.deciding_metric import NOTHING_DECIDES, find_deciding_metric
from mosaico.comparison.schemas import PowerView
from mosaico.core.db import Database
from mosaico.overview.dataset_health.asked_items import (
    MAX_ASKED,
    iter_dataset_items,
    iter_run_items,
)
from mosaico.overview.dataset_health.measured_runs import (
    HealthRun,
    list_measured_runs,
    pair_unchanged,
)
from mosaico.overview.dataset_health.same_questions import AskedItem, find_same_questions
from mosaico.overview.dataset_health.schemas import (
    DatasetHealth,
    DetectableDrop,
    NeededSize,
)
from mosaico.run_store.deciding_metric import DecidingMetric
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.run_series import list_points
from mosaico.run_store.series_points import metric_series
from mosaico.runs.pages.dataset import find_local_dataset
from mosaico.traces.datasets.queries import find_items, get_version, list_edited_ids
from mosaico.traces.models import Dataset

MAX_LISTED: Final = 100
MAX_ANNOTATIONS: Final = 5_000
# Drops of a share that readers think in: points.
_DROPS: Final = (0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005)
MAX_DROPS: Final = 3
NO_RUN: Final = "no valid run yet: start one, then its items are measured"
ONLY_SAMPLES: Final = (
    "its runs are samples of production traces, which have no items in common: make items of them"
)


class _MeasuredBenchmark(NamedTuple):
    """A benchmark with its dataset, if that lives here, and its newest valid run."""

    benchmark: Benchmark
    dataset: Dataset | None
    run: BenchmarkRun | None


def load_health(db: Database, benchmark_id: str) -> DatasetHealth:
    """The health of the dataset of a benchmark.

    Raises: `BenchmarkNotFound`, and the errors of `query_in_child`.
    """
    with db.read() as session:
        benchmark = get_benchmark(session, benchmark_id)
        # Trace sources are known in this process only.
        dataset = find_local_dataset(
            session, benchmark, power.find_newest_run(session, benchmark_id)
        )
        dataset_id = None if dataset is None else dataset.id
    return query_in_child(db, _measure_health, benchmark_id, dataset_id)


def _measure_health(db: Database, benchmark_id: str, dataset_id: str | None) -> DatasetHealth:
    with db.read() as session:
        subject = _MeasuredBenchmark(
            get_benchmark(session, benchmark_id),
            session.get(Dataset, dataset_id) if dataset_id else None,
            power.find_newest_run(session, benchmark_id),
        )
        decider = find_deciding_metric(session, subject.run) if subject.run else None
        parts = {
            **_describe_subject(subject),
            **_measure_questions(session, subject),
            "wrong_expectations": _list_open_expectations(session, subject),
        }
        reason = _why_not_measured(subject, decider)
    if reason is not None or subject.run is None or decider is None:
        return DatasetHealth(**parts, reason=reason)
    return DatasetHealth(**{**parts, **_measure_values(db, subject, subject.run, decider)})


def _describe_subject(subject: _MeasuredBenchmark) -> dict[str, Any]:
    dataset = subject.dataset
    return {
        "benchmark_id": subject.benchmark.id,
        "dataset_id": dataset and dataset.id,
        "dataset_name": subject.benchmark.dataset_ref,
        "dataset_version": dataset and dataset.version,
        "run_id": subject.run and subject.run.id,
    }


def _why_not_measured(subject: _MeasuredBenchmark, decider: DecidingMetric | None) -> str | None:
    if subject.run is None:
        return NO_RUN
    if subject.run.begun_plan.is_sample:
        return ONLY_SAMPLES
    return NOTHING_DECIDES if decider is None else None


def _measure_questions(session: Session, subject: _MeasuredBenchmark) -> dict[str, Any]:
    asked: Iterator[AskedItem] = iter(())
    if subject.dataset is not None:
        asked = iter_dataset_items(session, subject.dataset)
    elif subject.run is not None:
        asked = iter_run_items(session, subject.run)
    same = find_same_questions(asked)
    return {
        "item_count": same.items,
        "is_cut": same.items == MAX_ASKED,
        "duplicates": len(same.duplicates),
        "duplicate_items": same.duplicates[:MAX_LISTED],
        "contradictions": len(same.contradictions),
        "contradicting_items": same.contradictions[:MAX_LISTED],
    }


def _list_open_expectations(
    session: Session, subject: _MeasuredBenchmark
) -> list[WrongExpectation]:
    """What annotators call wrong, without items that were edited or retired since."""
    rows = list_wrong_expected(session, subject.benchmark.id, MAX_ANNOTATIONS)
    dataset = subject.dataset
    if dataset is not None:
        states = find_items(session, dataset.id, dataset.version, [row.item_id for row in rows])
        edited = {
            version: get_version(session, dataset.id, version).created_at
            for version in {state.version for state in states.values()}
        }
        rows = [
            row
            for row in rows
            if (state := states.get(row.item_id)) is None
            or (not state.is_retired and edited[state.version] < row.updated_at)
        ]
    return list_wrong_expectations(rows)[:MAX_LISTED]


def _measure_values(
    db: Database, subject: _MeasuredBenchmark, run: BenchmarkRun, decider: DecidingMetric
) -> dict[str, Any]:
    # numpy, only in a process that computes.
    from mosaico.overview.dataset_health.item_values import (
        find_constant_items,
        find_flipping_items,
        read_values,
    )

    with db.read() as session:
        newest = power.with_run_before(session, run)
        runs = list_measured_runs(session, run.benchmark_id)
        series = metric_series(decider.column)
        points = list_points(session, series, [run.seq for run in runs])
        edited = _list_edited(session, subject.dataset, run)
    measured = power.measure_runs(db, newest, decider.column)
    of_items = read_values(measured.run, runs, points, edited)
    pairs = list(pair_unchanged(of_items.runs))
    constant = find_constant_items(of_items, decider, MAX_LISTED)
    flipping = find_flipping_items(of_items, pairs, MAX_LISTED)
    return {
        **_describe_runs(of_items.runs),
        "metric": decider.column,
        **({"is_cut": True} if measured.run.left_out else {}),
        "unchanged_pairs": len(pairs),
        "unrecorded_pairs": sum(not of_items.runs[pair.after].is_recorded for pair in pairs),
        "constant_right": constant.right,
        "constant_wrong": constant.wrong,
        "constant_items": constant.listed,
        "flipping": flipping.number,
        "flipping_items": flipping.listed,
        "detectable": _describe_power(power.estimate_drops(measured, decider.column, choose_drops)),
    }


def _list_edited(session: Session, dataset: Dataset | None, run: BenchmarkRun) -> set[str]:
    """The items that were edited or retired since a run: its values say nothing of them."""
    if dataset is None:
        return set()
    # A run from before the dataset had versions is one of its first version.
    return list_edited_ids(session, dataset.id, run.dataset_version or 1)


def _describe_runs(runs: Sequence[HealthRun]) -> dict[str, int]:
    return {"runs": len(runs), "agents": len({run.agent_id for run in runs})}


def choose_drops(now: PowerView) -> list[float]:
    """Drops below the one that is detected now; none if that is not known."""
    effect = now.min_detectable_effect
    return [] if effect is None else [drop for drop in _DROPS if drop < effect][:MAX_DROPS]


def _describe_power(views: Sequence[PowerView]) -> DetectableDrop:
    now, *smaller = views
    effect = now.min_detectable_effect
    return DetectableDrop(
        items=now.items,
        trials=now.trials,
        drop=effect,
        explanation=now.explanation,
        needed=[
            NeededSize(drop=drop, items_needed=view.items_needed, trials_needed=view.trials_needed)
            for drop, view in zip(choose_drops(now), smaller, strict=True)
        ],
    )
