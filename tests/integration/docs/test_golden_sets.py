"""docs/golden-sets.md: the commands print the documented output."""

from pathlib import Path

from tests.integration.docs.test_examples import blocks, examples, matches
from tests.support.page_commands import command_environment, run_command
from tests.support.service import Service, pair

QUESTIONS = 'id,question,answer\ngift,May I return a gift?,"Yes, within 30 days."\nopen,When do you open?,At nine.\n'


def measure_nights(service: Service) -> None:
    """Five nights of one model: "gift" is never right, "open" on every second night."""
    service.create_agent()
    service.create_benchmark("support", metrics=["EXACT_MATCH"])
    for night in range(5):
        answers = {"gift": f"no {night}", "open": f"no {night}" if night % 2 else "At ten."}
        rows = [
            pair(number, None, answer, itemId=item, attributes={"model": "m-1"})
            for number, (item, answer) in enumerate(answers.items())
        ]
        service.upload(rows, run_name=f"night-{night}")
        service.complete_run(benchmarkId="support", runName=f"night-{night}")


def test_commands__answer_as_shown(service: Service, tmp_path: Path) -> None:
    (tmp_path / "questions.csv").write_text(QUESTIONS)
    environment = command_environment(service, tmp_path)
    commands = [
        example for block in blocks("docs/golden-sets.md", "console") for example in examples(block)
    ]
    assert len(commands) >= 6
    for command, output in commands:
        if command.startswith("mosaico items health"):
            measure_nights(service)
        done = run_command(command, environment, tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        lines = (done.stdout + done.stderr).splitlines()
        answer = "\n".join(line for line in lines if not line.startswith("page: "))
        # A table is aligned on a terminal, and has tabs in a pipe.
        printed, expected = (" ".join(text.split()) for text in (answer, output))
        assert matches(printed, expected), f"{command}\n{done.stdout}{done.stderr}"
