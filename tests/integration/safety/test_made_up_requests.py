"""No generated request causes a server error or an undocumented response."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from mosaico.access import rate_limits
from mosaico.core.logging import configure_logging
from tests.integration.safety.fuzzing import EXCLUDED, Fuzzer, fuzzer_of
from tests.support.described_api import list_event_streams
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


@pytest.mark.prove
def test_phases_of_schemathesis__find_nothing(fuzzer: Fuzzer, tmp_path: Path) -> None:
    """Its command also leaves out required headers, sends other methods, and reads what it deleted."""
    client = fuzzer.service.client
    url = str(client.base_url.join("/openapi.json"))
    options = ["--checks=all", f"--exclude-checks={','.join(EXCLUDED)}", "--mode=all", "--seed=1"]
    options += ["--phases=coverage,fuzzing,stateful", "--max-examples=10", "--continue-on-failure"]
    options += ["--warnings=off", "--no-color"]
    # They end only when the client disconnects; `Fuzzer.operations` leaves them out, too.
    options += [f"--exclude-name={name}" for name in list_event_streams(client.get(url).json())]
    key = f"--header=Authorization: {client.headers['Authorization']}"
    schemathesis = Path(sys.executable).with_name("schemathesis")
    done = subprocess.run(
        [schemathesis, "run", url, key, *options],
        cwd=tmp_path,  # its configuration is read from the current folder
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
