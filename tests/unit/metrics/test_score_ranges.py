"""The worst value of a failed answer: of the range of a score, of its labels, or by its name."""

import pytest

from mosaico.core.errors import Invalid
from mosaico.metrics.engine import measure
from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.score_ranges import is_share, parse_range
from mosaico.metrics.types import MetricRef, MetricSkipped, MetricSkipReason
from mosaico.traces.types import Trace, TraceOutcome


@pytest.fixture(scope="module", autouse=True)
def _metrics() -> None:
    load_metrics()


def failed(**scores: float) -> Trace:
    return Trace(trace_id="t", item_id="i", outcome=TraceOutcome.AGENT_ERROR, scores=scores)


@pytest.mark.parametrize(
    ("text", "ends"), [("0..1", (0, 1)), (" -1 .. 1 ", (-1, 1)), ("1e-3..2.5", (0.001, 2.5))]
)
def test_parse_range__has_two_ends(text: str, ends: tuple[float, float]) -> None:
    assert parse_range(text) == ends


@pytest.mark.parametrize("text", ["", "1", "1..", "..1", "1..1", "2..1", "0..inf", "a..b", "0-1"])
def test_parse_range__refuses_what_is_no_range(text: str) -> None:
    with pytest.raises(Invalid, match=r"0\.\.1"):
        parse_range(text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", True),
        ("exact_match", True),
        ("passRate", True),
        ("f1", True),
        # Scores of judges lie anywhere, and these words do not stay shares beside others.
        ("quality", False),
        ("correctness", False),
        ("pass_latency", False),
        ("winner margin", False),
    ],
)
def test_is_share__by_name(name: str, *, expected: bool) -> None:
    assert is_share(name) is expected


@pytest.mark.parametrize(
    ("options", "worst"),
    [
        ({"name": "quality", "range": "1..5"}, 1.0),
        ({"name": "toxicity", "range": "0..7"}, 7.0),
        ({"name": "tone", "better": "lower", "range": "1..5"}, 5.0),
        ({"name": "tone", "better": "higher", "labels": "good=3,bad=1"}, 1.0),
        ({"name": "accuracy"}, 0.0),
        # Nobody said which end is worse, or where it is.
        ({"name": "tone", "range": "1..5"}, None),
        ({"name": "quality"}, None),
        ({"name": "accuracy", "better": "lower"}, None),
    ],
)
def test_failed_answer__without_a_score_has_the_worst_value(
    options: dict[str, str], worst: float | None
) -> None:
    row = measure(failed(), [provider_for(MetricRef.of("SCORE", options))])
    assert row.values == (worst,)
    if worst is None:
        assert [*row.missing.values()] == [MetricSkipped(MetricSkipReason.AGENT_ERROR)]


def test_failed_answer__keeps_the_recorded_score() -> None:
    provider = provider_for(MetricRef.of("SCORE", {"name": "quality", "range": "0..1"}))
    assert measure(failed(quality=0.25), [provider]).values == (0.25,)


def test_failed_task__did_not_pass() -> None:
    for key in ("TASK_PASSED", "TASK_SCORE", "NATURAL_STOP"):
        provider = provider_for(MetricRef.of(key))
        assert measure(failed(), [provider]).values == (0.0,)
        answered = Trace(trace_id="t", item_id="i", output="an answer")
        assert measure(answered, [provider]).values == (None,)
