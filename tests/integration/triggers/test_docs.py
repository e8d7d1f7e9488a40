"""The examples of docs/triggers.md work with curl and openssl."""

import re
from pathlib import Path

from tests.integration.docs.test_examples import ROOT, blocks, examples, matches
from tests.support.described_api import api_routes, roles
from tests.support.page_commands import command_environment, run_command
from tests.support.service import Service, pair

PAGE = "docs/triggers.md"


def test_triggers_page__commands_answer_as_shown(service: Service, tmp_path: Path) -> None:
    service.create_agent("helpdesk")
    service.create_benchmark(
        "nightly", datasetRef="questions", evaluates=["helpdesk"], metrics=["ACCURACY"]
    )
    service.upload([pair(1)], name="questions", run_name="monday")
    for script in blocks(PAGE, "sh"):
        [name] = re.findall(r"^# (\S+)", script)
        (tmp_path / name).write_text(script)
    environment = command_environment(service, tmp_path)
    documented = [example for block in blocks(PAGE, "console") for example in examples(block)]
    for command, output in documented:
        done = run_command(command, environment, tmp_path)
        assert done.returncode == 0, done.stderr
        assert matches(done.stdout, output), f"{command}\n{done.stdout}"
    assert len(documented) == 6
    service.work()
    runs = service.get("/benchmark-runs")["items"]
    assert [(run["status"], run["triggeredBy"], run["runName"]) for run in runs] == [
        ("COMPLETED", "WEBHOOK", "monday")
    ] * 2


def test_triggers_page__lists_every_route_with_its_role() -> None:
    rows = re.findall(
        r"^\| `([A-Z]+ /[^`]+)` \| ([\w ]+) \|", (ROOT / PAGE).read_text(), re.MULTILINE
    )
    needed = {
        f"{method} {route.path.removeprefix('/api/v1')}": "".join(roles(route.dependant))
        for route in api_routes()
        if route.path is not None and "triggers" in getattr(route.original_route, "tags", [])
        for method in route.methods or ()
    }
    assert {route: "" if need == "a signature" else need for route, need in rows} == needed
