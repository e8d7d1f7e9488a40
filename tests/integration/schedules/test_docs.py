"""The examples of docs/schedules.md give the documented results."""

import subprocess
import sys
from pathlib import Path

from tests.integration.docs.test_examples import blocks, examples, matches
from tests.support.service import Service


def test_the_commands_of_the_page_answer_as_shown(
    prepared_service: Service, tmp_path: Path
) -> None:
    key = prepared_service.client.headers["Authorization"].removeprefix("Bearer ")
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "MOSAICO_URL": str(prepared_service.client.base_url).rstrip("/"),
        "MOSAICO_API_KEY": key,
        "KEY": key,
        "MOSAICO_DATA_DIR": str(tmp_path),
    }
    for block in blocks("docs/schedules.md", "console"):
        for command, output in examples(block):
            done = subprocess.run(
                ["bash", "-c", command],
                env=environment,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert matches(done.stdout, output), f"{command}\n{done.stdout}{done.stderr}"
