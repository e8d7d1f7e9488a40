"""README.md and docs/extending*.md: the examples work."""

import re
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import pytest

from mosaico.core.registry import Registry
from mosaico.plugins import (
    CHANNELS,
    CHECKS,
    IMPORTERS,
    METRICS,
    TRACE_SOURCES,
    ChannelSpec,
    Check,
    Importer,
    MetricFactory,
    SourceSpec,
)
from tests.support.page_commands import command_environment, run_command
from tests.support.service import Service

ROOT = Path(__file__).resolve().parents[3]
# The registry of each type of plugin.
REGISTRIES: dict[object, Registry[Any]] = {
    MetricFactory: METRICS,
    SourceSpec: TRACE_SOURCES,
    Importer: IMPORTERS,
    Check: CHECKS,
    ChannelSpec: CHANNELS,
}


class Example(NamedTuple):
    """A command of a console block, and what it should print; `…` stands for anything."""

    command: str
    output: str


def text_of(pages: str) -> str:
    """The text of a page, or of all pages of a pattern in the order of their names."""
    return "".join(path.read_text("utf-8") for path in sorted(ROOT.glob(pages)))


def blocks(pages: str, language: str) -> list[str]:
    """The code blocks of a page, or of all pages of a pattern."""
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(pages), re.DOTALL | re.MULTILINE)


def examples(block: str) -> list[Example]:
    parsed_examples = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        end = next(at for at, line in enumerate(lines) if not _is_unfinished(lines[: at + 1]))
        parsed_examples.append(Example("\n".join(lines[: end + 1]), "\n".join(lines[end + 1 :])))
    return parsed_examples


def _is_unfinished(lines: list[str]) -> bool:
    """Whether the command is not over yet: a backslash, an open quote."""
    text = "\n".join(lines)
    return text.endswith("\\") or text.count("'") % 2 == 1


def matches(output: str, expected: str) -> bool:
    pattern = ".*".join(re.escape(piece.strip()) for piece in expected.strip().split("…"))
    return re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


def test_readme__commands_return_the_documented_responses(service: Service, tmp_path: Path) -> None:
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    environment = command_environment(service, tmp_path)
    for block in blocks("README.md", "console"):
        for command, output in examples(block):
            done = run_command(command, environment, tmp_path)
            assert done.returncode == 0, done.stderr
            assert matches(done.stdout, output), f"{command}\n{done.stdout}"
        service.work()  # what takes a moment in the text


@pytest.fixture
def _registries_as_they_were(plugins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in REGISTRIES.values():
        forget(registry, monkeypatch)


def forget(registry: Registry[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test register things that are gone afterwards."""
    monkeypatch.setattr(registry, "_items", dict(registry._items))
    monkeypatch.setattr(registry, "_loaded", list(registry._loaded))


@pytest.mark.usefixtures("_registries_as_they_were")
def test_extending_page__examples_run() -> None:
    """A plugin is a whole file; what uses it goes on where that ended."""
    names: dict[str, Any] = {}
    for block in blocks("docs/extending*.md", "python"):
        own: dict[str, Any] = {} if "def register(" in block else names
        exec(compile(block, "docs/extending*.md", "exec"), own)
        if own is not names:
            [plugin_type] = get_type_hints(own["register"])["add"].__args__
            own["register"](REGISTRIES[plugin_type].register)
        names |= own
    assert {"BREVITY", "POLITE"} <= {*METRICS.names()}
    assert "counting" in TRACE_SOURCES.names()
    assert "PLAIN" in CHANNELS.names()
    assert "stdout_lines_max" in CHECKS.names()
    assert "quiz" in IMPORTERS.names()


def test_pages__plugin_examples_import_the_public_package_only() -> None:
    pages = ("extending", "metrics", "bashkit-eval", "ot-bench")
    examples = [block for page in pages for block in blocks(f"docs/{page}*.md", "python")]
    assert len(examples) > len(pages)
    assert [
        block for block in examples if re.search(r"^(from|import) app", block, re.MULTILINE)
    ] == []
