"""The pages of jobs: their commands print what the pages show, one after the other."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from mosaico.core.resources import Resources
from tests.integration.docs.test_examples import blocks, examples, matches
from tests.support.langfuse import run_fake_langfuse
from tests.support.page_commands import command_environment, run_command
from tests.support.processes import forked_programs
from tests.support.service import Service, working
from tests.unit.reporting.test_compare_cli import write_table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the reader; `init` names the agent after it."""
    path = tmp_path / "support"
    path.mkdir()
    return path


@pytest.fixture
def service_resources(service_resources: Resources, folder: Path) -> Resources:
    """A service whose workers run the agent of the folder, as docs/agents.md starts them."""
    options = {
        "harness_dir": str(folder),
        "agent_commands": str(folder / "agent-commands.json"),
    }
    return dataclasses.replace(service_resources, options={**service_resources.options, **options})


@pytest.fixture
def reader(service: Service, folder: Path) -> Iterator[Mapping[str, str]]:
    """The environment of the reader, whose service has a worker."""
    with working(service):
        yield command_environment(service, folder)


def check_commands(
    page_blocks: Iterable[str], environment: Mapping[str, str], folder: Path
) -> None:
    """Type the commands of a page."""
    commands = [example for block in page_blocks for example in examples(block)]
    assert commands
    for command, output in commands:
        done = run_command(command, environment, folder)
        assert done.returncode in (0, 1), f"{command}\n{done.stderr}"
        assert matches(done.stdout, output), f"{command}\n{done.stdout}{done.stderr}"


def test_compare_files(tmp_path: Path, folder: Path) -> None:
    write_table(folder / "last-week.csv", range(2))
    write_table(folder / "today.csv", range(14))
    environment = {"PATH": f"{forked_programs()}:/usr/bin:/bin", "HOME": str(tmp_path)}
    check_commands(blocks("docs/compare-files.md", "console"), environment, folder)


def test_langfuse(reader: Mapping[str, str], folder: Path) -> None:
    with run_fake_langfuse() as langfuse:
        langfuse.experiment(dataset="support questions", run="night-1", items=40)
        langfuse.experiment(
            dataset="support questions",
            run="night-2",
            items=40,
            output_of=lambda number: "I do not know" if number < 14 else f"answer {number}",
        )
        keys = {
            "LANGFUSE_BASE_URL": langfuse.url,
            "LANGFUSE_PUBLIC_KEY": langfuse.public_key,
            "LANGFUSE_SECRET_KEY": langfuse.secret_key,
        }
        page_blocks = blocks("docs/langfuse.md", "console")
        check_commands(page_blocks, {**reader, **keys}, folder)


def test_own_agent(reader: Mapping[str, str], folder: Path) -> None:
    (folder / "questions.csv").write_text(blocks("docs/agents.md", "csv")[0])
    (folder / "agent.py").write_text(blocks("docs/agents.md", "python")[0])
    # The first block needs no service: `test_agents`.
    check_commands(blocks("docs/agents.md", "console")[1:], reader, folder)


def test_spans_of_production(service: Service, reader: Mapping[str, str], folder: Path) -> None:
    setup, night = blocks("docs/otel.md", "console")
    check_commands([setup], reader, folder)
    [send, *rest] = (f"$ {part}" for part in night.removeprefix("$ ").split("\n$ "))
    check_commands([send], reader, folder)
    # The run waits for half a minute without spans.
    with service.resources.db.begin() as session:
        session.connection().exec_driver_sql(
            "UPDATE otel_traces SET last_received_at = last_received_at - interval '1 minute'"
        )
    check_commands(rest, reader, folder)


def test_operate(reader: Mapping[str, str], folder: Path) -> None:
    check_commands(blocks("docs/deployment.md", "console"), reader, folder)
