"""The outcome of the gate over random runs: worse runs never get a milder outcome."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.comparison.pair_comparison import compare
from mosaico.gating.offline_gate import pair_files
from mosaico.gating.offline_metrics import select_metrics
from mosaico.gating.rules import GateOutcome, GateTerms, decide
from mosaico.traces.files.trace_file import TraceReader

METRIC = "TASK_PASSED"
# From the mildest outcome to the most severe one.
SEVERITY = [GateOutcome.PASS, GateOutcome.INCONCLUSIVE, GateOutcome.REGRESSION]

pytestmark = pytest.mark.usefixtures("plugins")


def severity(
    baseline: Sequence[float], candidate: Sequence[float], max_drop: float, *, trials: int = 1
) -> int:
    """The severity of the outcome for runs with these pass rates by item."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("before.jsonl", "after.jsonl")]
        for path, rates in zip(paths, (baseline, candidate), strict=True):
            path.write_text("".join(_lines(rates, trials)))
        selected = select_metrics(METRIC, {})
        reader = TraceReader(lambda _: None, lambda _: None)
        before, after = paths
        comparison = compare(pair_files(before, after, selected, reader, selected.requested))
    terms = GateTerms(requested=selected.requested, max_drop={METRIC: max_drop})
    return SEVERITY.index(decide(comparison, terms).outcome)


def _lines(rates: Sequence[float], trials: int) -> list[str]:
    """One trace for each trial; a rate of 1/3 passes in the first of three trials."""
    return [
        json.dumps(
            {
                "traceId": f"{item}-{trial}",
                "itemId": f"i{item}",
                "trial": trial,
                "scores": {METRIC: float(trial < round(rate * trials))},
            }
        )
        + "\n"
        for item, rate in enumerate(rates)
        for trial in range(trials)
    ]


def test_max_drop__the_outcome_of_each_number_of_falls_is_monotone() -> None:
    # 37 of 40 pass; then 37, 36, … pass. The limit 0.2 is eight items.
    baseline = [1.0] * 37 + [0.0] * 3
    outcomes = [
        severity(baseline, [0.0] * falls + baseline[falls:], 0.2) for falls in range(0, 38, 1)
    ]
    assert outcomes == sorted(outcomes)
    assert (outcomes[0], outcomes[-1]) == (0, 2)
    assert 1 in outcomes


@given(data=st.data())
def test_gate__one_more_fall_never_gets_a_milder_outcome(data: st.DataObject) -> None:
    trials = data.draw(st.sampled_from([1, 3]))
    rate = st.integers(0, trials).map(lambda passed: passed / trials)
    size = data.draw(st.integers(10, 40))
    runs = [data.draw(st.lists(rate, min_size=size, max_size=size)) for _ in range(2)]
    # Of better runs a smaller rise can be more certain, and a run without any change passes.
    candidate, baseline = sorted(runs, key=sum)
    max_drop = data.draw(st.sampled_from([0.02, 0.05, 0.1, 0.2, 0.3]))
    # Without one of its rises a run varies less, and may be certain where it was not.
    not_risen = [item for item in range(size) if candidate[item] <= baseline[item]]
    item = data.draw(st.sampled_from(not_risen))
    worse = [*candidate]
    worse[item] = max(0.0, worse[item] - 1 / trials)
    before = severity(baseline, candidate, max_drop, trials=trials)
    assert severity(baseline, worse, max_drop, trials=trials) >= before


@given(data=st.data())
def test_gate__a_larger_limit_never_gets_a_stricter_outcome(data: st.DataObject) -> None:
    size = data.draw(st.integers(10, 40))
    passed = st.sampled_from([0.0, 1.0])
    runs = [data.draw(st.lists(passed, min_size=size, max_size=size)) for _ in range(2)]
    small, large = sorted(data.draw(st.lists(st.floats(0.005, 0.5), min_size=2, max_size=2)))
    assert severity(runs[0], runs[1], large) <= severity(runs[0], runs[1], small)
