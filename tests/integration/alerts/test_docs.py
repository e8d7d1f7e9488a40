"""The commands and names in the pages about alerts."""

import json
import re
from pathlib import Path

from mosaico.alerts.rules import AlertStatus, Condition, NoDataPolicy
from mosaico.alerts.schemas import AlertConfigBody
from tests.integration.docs.test_examples import ROOT, blocks, examples, matches
from tests.support.page_commands import command_environment, run_command
from tests.support.service import Service, pair, working

# The commands of a page go on where those of the page before ended.
PAGES = ("docs/alerts.md", "docs/incidents.md", "docs/alert-rules.md")


def test_docs_alerts__commands_answer_as_shown(benchmark_service: Service, tmp_path: Path) -> None:
    for name, right in (("monday", 4), ("tuesday", 2)):
        traces = [pair(number, "yes", "yes" if number < right else "no") for number in range(4)]
        benchmark_service.upload(traces, run_name=name)
    environment = command_environment(benchmark_service, tmp_path)
    with working(benchmark_service):
        for block in [block for page in PAGES for block in blocks(page, "console")]:
            for command, output in examples(block):
                done = run_command(command, environment, tmp_path)
                transcript = f"{command}\n{done.stdout}{done.stderr}"
                assert matches(done.stdout.replace('":', '": ').replace(',"', ', "'), output), (
                    transcript
                )


def test_docs_alerts__name_every_field_condition_state_and_policy() -> None:
    text = "".join((ROOT / page).read_text() for page in PAGES)
    named = set(re.findall(r"`([A-Za-z_]+)`", text))
    fields = {info.alias for info in AlertConfigBody.model_fields.values()}
    words = {*Condition, *AlertStatus, *NoDataPolicy}
    assert {*fields, *words} <= named


def test_docs_alerts__defaults_of_the_fields_are_those_of_the_service() -> None:
    page = (ROOT / "docs" / "alert-rules.md").read_text()
    documented = dict(re.findall(r"^\| `(\w+)` \| `([\w.]+)`", page, re.MULTILINE))
    defaults = {info.alias: info.default for info in AlertConfigBody.model_fields.values()}
    assert len(documented) > 5
    # A field that is not sent may have no default that a constant says.
    fixed = {name: defaults[name] for name in documented if defaults[name] is not None}
    texts = {
        name: json.dumps(value) if isinstance(value, bool) else str(value)
        for name, value in fixed.items()
    }
    assert texts == {name: documented[name] for name in texts}
