"""docs/handover.md: the named files and tests exist, and its requests work against a Langfuse server."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.docs.test_examples import ROOT, blocks, examples
from tests.integration.test_api_page import matches_output
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.service import Service
from tests.support.waiting import LIVENESS_S

PAGE = "docs/handover.md"


@pytest.fixture
def langfuse() -> Iterator[FakeLangfuse]:
    with run_fake_langfuse() as server:
        yield server


def test_handover_page__named_files_and_tests_exist() -> None:
    named = re.findall(r"`((?:app|tests)/[\w/.]+)(?:::(\w+))?`", (ROOT / PAGE).read_text())
    assert len(named) > 30
    for path, test in named:
        assert (ROOT / path).exists(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(), test


def test_handover_page__settings_of_the_table_exist() -> None:
    page = (ROOT / PAGE).read_text()
    names = set(re.findall(r"`(MOSAICO_[A-Z_]+|DATABASE_URL)", page))
    assert len(names) > 12
    settings = set(re.findall(r"^([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    assert names <= settings


def test_handover_page__requests_return_the_documented_responses(
    service: Service, langfuse: FakeLangfuse, tmp_path: Path
) -> None:
    langfuse.experiment(
        dataset="dataset-123", run="quality-run", output_of=lambda number: f"wrong {number}"
    )
    stand_in = {
        "https://cloud.langfuse.com": langfuse.url,
        "pk-lf-1": langfuse.public_key,
        "sk-lf-1": langfuse.secret_key,
    }
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "API": f"{service.client.base_url}/api/v1",
        "KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    [block] = blocks(PAGE, "console")
    for written_command, output in examples(block):
        command = written_command
        for original, replacement in stand_in.items():
            command = command.replace(original, replacement)
        done = subprocess.run(
            ["bash", "-c", command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LIVENESS_S,
            check=True,
        )
        assert matches_output(output, done.stdout), f"{command}\n{done.stdout}"
        service.work()
