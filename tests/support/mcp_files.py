"""Benchmark files of `ot-bench` in the words of a test."""

from pathlib import Path

from mosaico.harness.mcp.config import (
    McpBenchmark,
)
from mosaico.harness.mcp.lint import lint
from mosaico.harness.mcp.loader import (
    LoadedFile,
    format_position,
    load_text,
)
from mosaico.harness.mcp.secrets import (
    Secrets,
)

SCENARIO = """
scenarios:
  - name: s
    tasks:
      - name: compare:base
        # Two dollar signs are one in the prompt: without the second one, PRICE would be a variable.
        prompt: How much is $${PRICE}?
"""


def inspected(text: str, environment: dict[str, str] | None = None, **secrets: str) -> LoadedFile:
    secret_values = Secrets(values=secrets, searched_paths=(Path("config/bench-secrets.yaml"),))
    return lint(load_text(text.encode(), "b.yaml", secret_values, environment or {}))


def errors(file: LoadedFile) -> list[str]:
    return [f"{format_position(file, finding)} {finding.text}" for finding in file.errors]


def bench(file: LoadedFile) -> McpBenchmark:
    assert file.errors == []
    assert file.bench is not None
    return file.bench


def task(text: str) -> str:
    """A file with one task; the lines of the task start on line 5."""
    lines = "".join(f"        {line}\n" for line in text.splitlines())
    return f"scenarios:\n  - name: s\n    tasks:\n      - name: compare:base\n{lines}"
