"""The Markdown block that `python -m benchmarks large run` prints."""

import pytest

from benchmarks.large.run_table import RunFigures, render_run_table


def figures(size: int, cpu_s: float, peer_s: float | None) -> RunFigures:
    return RunFigures(
        size=size,
        whole_s=size * 100e-6,
        finish_s=0.25,
        cpu_s={"worker": cpu_s / 2, "database": cpu_s / 4, "metric child": cpu_s / 4},
        peer_s=peer_s,
        peaks={"worker": 160.4, "metric child": 140.0, "api": 148.6},
    )


def test_run_table__has_a_column_for_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAICO_BENCH_SIZES", "1000,10000")
    monkeypatch.delenv("MOSAICO_BENCH_PEER_LIMIT", raising=False)
    # 120 and 150 µs of CPU per trace: 1.25 times.
    text = render_run_table([figures(1_000, 0.12, 0.4), figures(10_000, 1.5, None)])
    command, _, *rows, _, ratios = text.splitlines()

    assert command.startswith("`MOSAICO_BENCH_SIZES=1000,10000 python -m benchmarks large run`, ")
    assert rows[:5] == [
        "| Measure | 1,000 traces | 10,000 traces |",
        "|---|---|---|",
        "| time per trace, from the upload to COMPLETED | 100 µs | 100 µs |",
        "| CPU of all processes per trace, from POST to COMPLETED | 120 µs | 150 µs |",
        "| of it metric processes, worker, database | 30, 60, 30 µs | 38, 75, 38 µs |",
    ]
    # The peer took 0.4 s where a run of 1,000 traces takes 0.1 s.
    assert rows[5].endswith(" | 4.0 times | – |")
    assert rows[7].endswith(" | 149 MiB | 149 MiB |")
    assert ratios.endswith("time per trace 1.00 times, CPU per trace 1.25 times.")
