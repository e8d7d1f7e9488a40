"""The examples of docs/schedules.md and docs/cron.md give the documented results."""

from pathlib import Path

from tests.integration.docs.test_examples import blocks, examples, matches
from tests.support.page_commands import command_environment, run_command
from tests.support.service import Service


def test_the_commands_of_the_page_answer_as_shown(
    prepared_service: Service, tmp_path: Path
) -> None:
    environment = command_environment(prepared_service, tmp_path)
    pages = ("docs/schedules.md", "docs/cron.md")
    for block in [block for page in pages for block in blocks(page, "console")]:
        for command, output in examples(block):
            done = run_command(command, environment, tmp_path)
            assert matches(done.stdout, output), f"{command}\n{done.stdout}{done.stderr}"
