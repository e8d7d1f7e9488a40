"""docs/handover.md: the named files and tests exist, and its requests work."""

import re
import subprocess
from pathlib import Path

from tests.integration.docs.test_examples import ROOT, blocks, examples
from tests.integration.test_api_page import matches_output
from tests.support.service import Service

PAGE = "docs/handover.md"


def test_handover_page__named_files_and_tests_exist() -> None:
    named = re.findall(r"`((?:app|tests)/[\w/.]+)(?:::(\w+))?`", (ROOT / PAGE).read_text())
    assert len(named) > 30
    for path, test in named:
        assert (ROOT / path).exists(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(), test


def test_handover_page__requests_return_the_documented_responses(
    service: Service, tmp_path: Path
) -> None:
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "API": f"{service.client.base_url}/api/v1",
        "KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    [block] = blocks(PAGE, "console")
    for command, output in examples(block):
        done = subprocess.run(
            ["bash", "-c", command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert matches_output(output, done.stdout), f"{command}\n{done.stdout}"
        service.work()
