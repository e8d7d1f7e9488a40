"""docs/golden-sets.md: the commands print the documented output."""

from pathlib import Path

from tests.integration.docs.test_examples import blocks, examples, matches
from tests.support.page_commands import command_environment, run_command
from tests.support.service import Service

QUESTIONS = 'id,question,answer\ngift,May I return a gift?,"Yes, within 30 days."\nopen,When do you open?,At nine.\n'


def test_commands__answer_as_shown(service: Service, tmp_path: Path) -> None:
    (tmp_path / "questions.csv").write_text(QUESTIONS)
    environment = command_environment(service, tmp_path)
    commands = [
        example for block in blocks("docs/golden-sets.md", "console") for example in examples(block)
    ]
    assert len(commands) >= 6
    for command, output in commands:
        done = run_command(command, environment, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        lines = (done.stdout + done.stderr).splitlines()
        answer = "\n".join(line for line in lines if not line.startswith("page: "))
        # A table is aligned on a terminal, and has tabs in a pipe.
        printed, expected = (" ".join(text.split()) for text in (answer, output))
        assert matches(printed, expected), f"{command}\n{done.stdout}{done.stderr}"
