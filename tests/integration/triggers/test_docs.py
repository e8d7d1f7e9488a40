"""What docs/triggers.md shows is what happens, with curl and openssl."""

import re
import subprocess
from pathlib import Path

from tests.integration.docs.test_examples import blocks, examples, matches
from tests.support.service import Service, pair

PAGE = "docs/triggers.md"


def test_the_commands_of_the_page_answer_as_shown(service: Service, tmp_path: Path) -> None:
    service.agent("helpdesk")
    service.benchmark(
        "nightly", datasetRef="questions", evaluates=["helpdesk"], metrics=["ACCURACY"]
    )
    service.upload([pair(1)], name="questions", run_name="monday")
    for script in blocks(PAGE, "sh"):
        [name] = re.findall(r"^# (\S+)", script)
        (tmp_path / name).write_text(script)
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "MOSAICO_URL": str(service.client.base_url).rstrip("/"),
        "KEY": service.client.headers["Authorization"].removeprefix("Bearer "),
    }
    shown = [example for block in blocks(PAGE, "console") for example in examples(block)]
    for command, output in shown:
        done = subprocess.run(
            ["bash", "-c", command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert matches(done.stdout, output), f"{command}\n{done.stdout}"
    assert len(shown) == 6
    service.work()
    runs = service.get("/benchmark-runs")["items"]
    assert [(run["status"], run["triggeredBy"], run["runName"]) for run in runs] == [
        ("COMPLETED", "WEBHOOK", "monday")
    ] * 2
