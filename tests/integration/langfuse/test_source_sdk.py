"""The source reads an experiment that the real SDK ran."""

from collections.abc import Iterator

import pytest

from mosaico.core.clock import utc_now
from mosaico.traces.types import TraceOutcome
from tests.integration.langfuse.collection import collect_all
from tests.integration.langfuse.test_sdk_round_trip import run_capitals, sdk_of
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse


@pytest.fixture
def after_the_experiment() -> Iterator[FakeLangfuse]:
    with run_fake_langfuse(takes_score_lists=True) as running:
        for sdk in sdk_of(running):
            run_capitals(sdk)
            sdk.flush()
        yield running


def test_source__reads_an_experiment_of_the_sdk(after_the_experiment: FakeLangfuse) -> None:
    collection = collect_all(
        after_the_experiment,
        dataset_ref="capitals/ö",
        run_name="run 1/ö,x",
        late_scores=True,
        now=utc_now(),
    ).by_item
    assert {name: (trace.output, trace.expected_output) for name, trace in collection.items()} == {
        "Italy": ("Rome", "Rome"),
        "France": ("Rome", "Paris"),
        "Chile": (None, "Santiago"),
    }
    chile, italy = collection["Chile"], collection["Italy"]
    assert (chile.outcome, chile.error) == (TraceOutcome.AGENT_ERROR, "no such country")
    assert italy.input == '{"country": "Italy"}'
    # The judge costs 8 USD per answer, the agent 0.25 + 0.5.
    assert {trace.cost_usd for trace in collection.values()} == {0.75}
    assert {(trace.input_tokens, trace.output_tokens) for trace in collection.values()} == {(3, 4)}
    assert [collection[name].scores for name in ("Italy", "France", "Chile")] == [
        {"exact": 1.0},
        {"exact": 0.0},
        {},
    ]
