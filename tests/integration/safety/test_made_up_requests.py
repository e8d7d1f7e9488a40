"""Whatever is sent: no error of the server, and no answer that the description does not name."""

import logging
import os
from collections.abc import Iterator

import pytest
import structlog

from app.core.logging import configure_logging
from tests.integration.safety.fuzzing import Fuzzer, fuzzer_of
from tests.support.service import Service

SEEDS = (1, 2, 3)
# So many of each of the three kinds, to each operation and with each seed: together some 70,000
# requests, about 20 minutes on a quiet machine of two cores. MOSAICO_TEST_FUZZ_EXAMPLES for others.
EXAMPLES = "75"


@pytest.fixture
def fuzzer(service: Service) -> Iterator[Fuzzer]:
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
        fuzzer.attack(operation, examples=2, seed=0)
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
