"""The examples of docs/notifications.md give the documented results."""

import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mosaico.notifications.types import DeliveryTarget
from tests.integration.docs.test_examples import blocks, examples, matches
from tests.integration.notifications.conftest import NotificationScenario
from tests.support.page_commands import command_environment
from tests.support.waiting import LIVENESS_S


def test_the_commands_of_the_page_answer_as_shown(
    scenario: NotificationScenario, tmp_path: Path
) -> None:
    environment = command_environment(scenario.service, tmp_path)
    environment["HOOK"] = scenario.receiver.at("hook")
    for block in blocks("docs/notifications.md", "console"):
        for command, expected_output in examples(block):
            output = run_beside_a_worker(command, environment, scenario.work)
            assert matches(output, expected_output), f"{command}\n{output}"
    assert scenario.receiver.calls


def run_beside_a_worker(command: str, environment: dict[str, str], work: Callable[[], None]) -> str:
    """What a command prints, and what it complains of when it prints nothing."""
    with subprocess.Popen(
        ["bash", "-c", command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None:
            work()
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.3)
        output, complaint = process.communicate(timeout=LIVENESS_S)
    return output or (complaint if process.returncode else "")


def test_docs__signature_check_accepts_our_signatures(scenario: NotificationScenario) -> None:
    names: dict[str, Callable[..., bool]] = {}
    [code] = blocks("docs/notifications.md", "python")
    exec(compile(code, "docs/notifications.md", "exec"), names)
    url = scenario.receiver.at("hook")
    endpoint = scenario.service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url})
    secret = scenario.service.post(f"/endpoints/{endpoint['id']}/secret", {})["secret"]
    scenario.publish(DeliveryTarget("WEBHOOK", url))
    scenario.work()
    [call] = scenario.receiver.calls
    assert names["is_valid"](secret, call.headers, call.body)
    assert not names["is_valid"](secret, call.headers, call.body + b" ")
