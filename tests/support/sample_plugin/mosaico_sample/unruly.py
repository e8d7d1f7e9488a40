"""Metrics that fail in a certain way when the output of a trace is their own name."""

import ctypes
import os
import time
from collections.abc import Callable

from mosaico.plugins import AddPlugin, MetricFactory, MetricProvider, MetricSpec, Trace

KEPT: list[bytearray] = []


def _raise(_: str) -> None:
    raise LookupError("nothing is where it was")


def _hang(_: str) -> None:
    time.sleep(3600)


def _exit(_: str) -> None:
    os._exit(0)


def _quit(_: str) -> None:
    raise SystemExit("enough")


def _segfault(_: str) -> None:
    ctypes.string_at(0)


def _leak(mebibytes: str) -> None:
    KEPT.append(bytearray(int(mebibytes) << 20))


FAILURES: dict[str, Callable[[str], None]] = {
    "RAISES": _raise,
    "HANGS": _hang,
    "EXITS": _exit,
    "QUITS": _quit,
    "SEGFAULTS": _segfault,
    "LEAKS": _leak,
}


class FailingMetric:
    """1, unless the output is the metric's name, optionally with a number: `LEAKS 100`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.spec = MetricSpec(key=f"SAMPLE_{name}", description=name, source="the sample")

    def supports(self, trace: Trace) -> bool:  # noqa: ARG002
        return True

    def compute(self, trace: Trace) -> float:
        name, _, detail = (trace.output or "").partition(" ")
        if name == self._name:
            FAILURES[name](detail)
        return 1.0


class FailingSummary(FailingMetric):
    """Valid for every trace; its process exits when the run is summarized."""

    def __init__(self) -> None:
        super().__init__("SUMMARY")

    def compute(self, trace: Trace) -> float:  # noqa: ARG002
        return 0.5

    def summarize(self, traces: object) -> int:  # noqa: ARG002
        os._exit(0)

    def merge(self, first: int, second: int) -> int:
        return first + second

    def run_value(self, summary: int) -> float:
        return float(summary)


def register(add: AddPlugin[MetricFactory]) -> None:
    for name in FAILURES:
        add(f"SAMPLE_{name}", _factory(name))
    add("SAMPLE_SUMMARY", FailingSummary)


def _factory(name: str) -> Callable[[], MetricProvider]:
    return lambda: FailingMetric(name)
