"""A metric with all optional parts: options, a batch form, a value of the run."""

from collections.abc import Sequence

from mosaico.plugins import AddPlugin, Direction, MetricFactory, MetricSpec, Need, Trace


class Brevity:
    """1 for at most `words` words, `words` divided by the number of words otherwise.

    The value of a run uses the words of all its outputs.
    """

    def __init__(self, *, words: int = 2) -> None:
        self._words = words
        self.spec = MetricSpec(
            key="SAMPLE_BREVITY",
            description="Share of the output that was needed",
            source="deployment rule of the sample",
            version=f"1+words={words}",
            direction=Direction.HIGHER_IS_BETTER,
            worst=0.0,
            needs=frozenset({Need.OUTPUT}),
        )

    def supports(self, trace: Trace) -> bool:
        return bool((trace.output or "").split())

    def compute(self, trace: Trace) -> float:
        return min(1.0, self._words / _words(trace))

    def compute_batch(self, traces: Sequence[Trace]) -> Sequence[float]:
        return [self.compute(trace) for trace in traces]

    def summarize(self, traces: Sequence[Trace]) -> list[int]:
        return [self._words * len(traces), sum(map(_words, traces))]

    def merge(self, first: list[int], second: list[int]) -> list[int]:
        return [first[0] + second[0], first[1] + second[1]]

    def run_value(self, summary: list[int]) -> float | None:
        needed, actual = summary
        return min(1.0, needed / actual) if actual else None


def _words(trace: Trace) -> int:
    return len((trace.output or "").split())


def register(add: AddPlugin[MetricFactory]) -> None:
    add("SAMPLE_BREVITY", Brevity, aliases=["SAMPLE_SHORTNESS"])
