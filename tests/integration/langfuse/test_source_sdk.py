"""An experiment that the real SDK ran, as the source reads it."""

from collections.abc import Iterator

import pytest

from app.core.clock import utc_now
from app.traces.types import TraceOutcome
from tests.integration.langfuse.collecting import collected
from tests.integration.langfuse.test_sdk_round_trip import run_capitals, sdk_of
from tests.support.langfuse import StandIn, stand_in


@pytest.fixture
def after_the_experiment() -> Iterator[StandIn]:
    with stand_in(takes_score_lists=True) as running:
        for sdk in sdk_of(running):
            run_capitals(sdk)
            sdk.flush()
        yield running


def test_an_experiment_of_the_sdk_becomes_its_traces(after_the_experiment: StandIn) -> None:
    found = collected(
        after_the_experiment,
        dataset_ref="capitals/ö",
        run_name="night 1/ö,x",
        late_scores=True,
        now=utc_now(),
    ).by_item
    assert {name: (trace.output, trace.expected_output) for name, trace in found.items()} == {
        "Italy": ("Rome", "Rome"),
        "France": ("Rome", "Paris"),
        "Chile": (None, "Santiago"),
    }
    chile, italy = found["Chile"], found["Italy"]
    assert (chile.outcome, chile.error) == (TraceOutcome.AGENT_ERROR, "no such country")
    assert italy.input == '{"country": "Italy"}'
    # The judge spends 8 USD on each answer, the agent 0.25 + 0.5.
    assert {trace.cost_usd for trace in found.values()} == {0.75}
    assert {(trace.input_tokens, trace.output_tokens) for trace in found.values()} == {(3, 4)}
    assert [found[name].scores for name in ("Italy", "France", "Chile")] == [
        {"exact": 1.0},
        {"exact": 0.0},
        {},
    ]
