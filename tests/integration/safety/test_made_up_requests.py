"""No generated request causes a server error or an undocumented response."""

import logging
import os
from collections.abc import Iterator

import pytest
import structlog

from app.access import rate_limits
from app.core.logging import configure_logging
from tests.integration.safety.fuzzing import Fuzzer, fuzzer_of
from tests.support.service import Service

SEEDS = (1, 2, 3)
# Examples of each of the three kinds, per operation and seed: about 70,000 requests in total, 20
# minutes on a quiet machine with two cores. MOSAICO_TEST_FUZZ_EXAMPLES sets another number.
EXAMPLES = "75"


@pytest.fixture
def fuzzer(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fuzzer]:
    # Every request is repeated without a key and with invalid ones.
    monkeypatch.setattr(rate_limits, "FAILURE_BURST", 1_000_000)
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    configure_logging("json")  # else every failure is drawn with all its variables
    try:
        yield fuzzer_of(service)
    finally:
        structlog.reset_defaults()
        root.handlers[:], root.level = before


def test_generated_requests__responses_match_the_openapi_description(fuzzer: Fuzzer) -> None:
    for operation in fuzzer.operations():
        fuzzer.attack(operation, examples=1, seed=0)
    assert fuzzer.unreached() == []


@pytest.mark.prove
@pytest.mark.parametrize("seed", SEEDS)
def test_many_generated_requests__responses_match_the_openapi_description(
    fuzzer: Fuzzer, seed: int
) -> None:
    examples = int(os.environ.get("MOSAICO_TEST_FUZZ_EXAMPLES", EXAMPLES))
    for operation in fuzzer.operations():
        fuzzer.attack(operation, examples=examples, seed=seed)
    assert fuzzer.unreached() == []
