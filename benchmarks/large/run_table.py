"""Tables of runs of growing size as Markdown, with their command and date, for `docs/scaling.md`."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias, TypeVar

VARIABLES: Final = ("MOSAICO_BENCH_SIZES", "MOSAICO_BENCH_PEER_LIMIT")


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedRun:
    """The figures of one run; `cpu_s` by role from POST to COMPLETED, peaks in MiB."""

    size: int
    whole_s: float
    cpu_s: dict[str, float]
    peaks: dict[str, float]

    @property
    def whole_cpu_s(self) -> float:
        return sum(self.cpu_s.values())

    def micros(self, seconds: float) -> float:
        """Microseconds per trace."""
        return seconds / self.size * 1e6

    def cpu_micros(self, *roles: str) -> str:
        """The CPU of some processes per trace, as text."""
        micros = (self.micros(self.cpu_s.get(role, 0.0)) for role in roles)
        return f"{', '.join(f'{amount:.0f}' for amount in micros)} µs"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures(SizedRun):
    """The figures of one run with its upload, which `whole_s` includes."""

    finish_s: float
    peer_s: float | None


RunT = TypeVar("RunT", bound=SizedRun)
# The name of a row, and the text of a run in it.
TableRow: TypeAlias = tuple[str, Callable[[RunT], str]]

RUN_ROWS: Final[Sequence[TableRow[RunFigures]]] = (
    (
        "time per trace, from the upload to COMPLETED",
        lambda run: f"{run.micros(run.whole_s):.0f} µs",
    ),
    (
        "CPU of all processes per trace, from POST to COMPLETED",
        lambda run: f"{run.micros(run.whole_cpu_s):.0f} µs",
    ),
    (
        "of it metric processes, worker, database",
        lambda run: run.cpu_micros("metric child", "worker", "database"),
    ),
    (
        "upload and run, compared with pandas, rouge-score and sacrebleu (goal: 3 times faster)",
        lambda run: "–" if run.peer_s is None else f"{run.peer_s / run.whole_s:.1f} times",
    ),
    (
        "peak memory of a worker, a metric process (goals: 300, 200 MiB)",
        lambda run: f"{run.peaks.get('worker', 0):.0f}, {run.peaks.get('metric child', 0):.0f} MiB",
    ),
    (
        "peak memory of the API (goal: 300 MiB)",
        lambda run: f"{run.peaks.get('api', 0):.0f} MiB",
    ),
    ("finishing step (goal: 60 s)", lambda run: f"{run.finish_s:.1f} s"),
)


def render_run_table(runs: Sequence[RunFigures]) -> str:
    """The table of `python -m benchmarks large run`."""
    return render_table("python -m benchmarks large run", RUN_ROWS, runs)


def render_table(command: str, rows: Sequence[TableRow[RunT]], runs: Sequence[RunT]) -> str:
    """The runs as columns, with the command that measured them and the load of the machine."""
    return "\n".join(_lines(command, rows, runs))


def _lines(command: str, rows: Sequence[TableRow[RunT]], runs: Sequence[RunT]) -> Iterator[str]:
    settings = [f"{name}={os.environ[name]} " for name in VARIABLES if name in os.environ]
    load = os.getloadavg()[0]
    yield f"`{''.join(settings)}{command}`, {datetime.now(UTC):%Y-%m-%d}, load {load:.1f}:"
    yield ""
    yield f"| Measure | {' | '.join(f'{run.size:,} traces' for run in runs)} |"
    yield f"|---{'|---' * len(runs)}|"
    for name, text in rows:
        yield f"| {name} | {' | '.join(map(text, runs))} |"
    if len(runs) > 1:
        run_micros = [run.micros(run.whole_s) for run in runs]
        cpu = [run.micros(run.whole_cpu_s) for run in runs]
        yield ""
        yield (
            "Within each other (goal: 1.2 times):"
            f" time per trace {max(run_micros) / min(run_micros):.2f} times,"
            f" CPU per trace {max(cpu) / min(cpu):.2f} times."
        )
