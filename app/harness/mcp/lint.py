"""What is wrong with a benchmark file beyond its form, and what is against the conventions."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from app.core.registry import suggest_names
from app.harness.lint import LintSeverity
from app.harness.mcp.config import DirectTask, Evaluator, HarnessTask, McpBenchmark
from app.harness.mcp.evaluating import complaints
from app.harness.mcp.loader import Finding, McpFile
from app.harness.mcp.prompts import split_prompts
from app.harness.mcp.yaml_text import Document, Path

TAGS: Final = {
    "purpose": ("compare", "tool", "feature", "exec", "error"),
    "server": ("base", "mcp", "onetool", "all-mcps"),
    "tool": (
        "brave", "code-search", "context7", "everything", "filesystem", "memory", "package",
        "page-view", "time", "transform", "web-fetch",
    ),
    "feature": ("direct", "harness", "invoke", "proxy", "snippet"),
    "execution": ("comp", "if", "import", "loop", "parse", "return", "var"),
}  # fmt: skip
_KNOWN_TAGS: Final = [tag for tags in TAGS.values() for tag in tags]
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*(:[a-z0-9][a-z0-9_.-]*){1,2}")


def lint(file: McpFile) -> McpFile:
    """The file with everything that is to be mended, in the order of the lines."""
    found = list(file.findings)
    if file.bench is not None:
        found += _Linter(file.bench, file.document).findings()
    found += [
        _finding(
            file.document,
            path,
            f"{text!r} is read as it stands here, by YAML 1.1 as something else; quote it",
        )
        for path, text in file.document.ambiguous.items()
    ]
    return replace(file, findings=tuple(sorted(found, key=lambda finding: finding.place)))


class _Linter:
    """Goes through a file that could be understood."""

    def __init__(self, bench: McpBenchmark, document: Document) -> None:
        self._bench = bench
        self._document = document

    def findings(self) -> Iterable[Finding]:
        for name, evaluator in self._bench.evaluators.items():
            yield from self._evaluator(evaluator, ("evaluators", name))
        yield from self._defaults()
        seen: set[str] = set()
        for i, scenario in enumerate(self._bench.scenarios):
            path: Path = ("scenarios", i)
            if scenario.name in seen:
                yield self._error((*path, "name"), f"a scenario is named {scenario.name!r} already")
            seen.add(scenario.name)
            names: set[str] = set()
            for k, task in enumerate(scenario.tasks):
                place = (*path, "tasks", k)
                if task.name in names:
                    yield self._error((*place, "name"), f"a task is named {task.name!r} already")
                names.add(task.name)
                yield from self._task(task, place)

    def _defaults(self) -> Iterable[Finding]:
        defaults = self._bench.defaults
        for kind in ("direct", "harness"):
            part = getattr(defaults, kind)
            yield from self._servers(part.server, ("defaults", kind, "server"))
            yield from self._tags(part.tags, ("defaults", kind, "tags"))

    def _task(self, task: HarnessTask | DirectTask, path: Path) -> Iterable[Finding]:
        if not _NAME.fullmatch(task.name):
            text = f"the name {task.name!r} is not of the form category:subcategory:detail"
            yield self._warning((*path, "name"), text)
        yield from self._tags(task.tags, (*path, "tags"))
        yield from self._servers(task.server, (*path, "server"))
        if isinstance(task, DirectTask):
            yield from self._direct(task, path)
        elif not split_prompts(task.prompt):
            yield self._error((*path, "prompt"), "the prompt has no text; write one")
        yield from self._reference(task.evaluate, (*path, "evaluate"))

    def _direct(self, task: DirectTask, path: Path) -> Iterable[Finding]:
        defaults = self._bench.defaults.direct
        if task.tool is None and defaults.tool is None:
            yield self._error((*path, "tool"), "a direct task calls a tool; add tool")
        servers = task.server if "server" in task.model_fields_set else defaults.server
        if servers is None or (isinstance(servers, list) and len(servers) != 1):
            yield self._error((*path, "server"), "a direct task calls one server; name it")

    def _servers(self, names: str | list[str] | None, path: Path) -> Iterable[Finding]:
        listed = [names] if isinstance(names, str) else names or []
        known = list(self._bench.servers)
        for name in listed:
            if name not in known:
                near = suggest_names(name, known)
                yield self._error(path, f"no server is named {name!r}.{near}")
        if len(set(listed)) < len(listed):
            yield self._error(path, "a server is named twice; remove one")

    def _reference(self, evaluate: str | Evaluator | None, path: Path) -> Iterable[Finding]:
        if isinstance(evaluate, Evaluator):
            yield from self._evaluator(evaluate, path)
        elif evaluate is not None and evaluate not in self._bench.evaluators:
            near = suggest_names(evaluate, list(self._bench.evaluators))
            yield self._error(path, f"no evaluator is named {evaluate!r}.{near}")

    def _evaluator(self, evaluator: Evaluator, path: Path) -> Iterable[Finding]:
        for text in complaints(evaluator):
            yield self._error(path, text)

    def _tags(self, tags: list[str], path: Path) -> Iterable[Finding]:
        for i, tag in enumerate(tags):
            if tag not in _KNOWN_TAGS:
                near = suggest_names(tag, _KNOWN_TAGS)
                yield self._warning((*path, i), f"the tag {tag!r} is none of the taxonomy.{near}")

    def _error(self, path: Path, text: str) -> Finding:
        return _finding(self._document, path, text, LintSeverity.ERROR)

    def _warning(self, path: Path, text: str) -> Finding:
        return _finding(self._document, path, text)


def _finding(
    document: Document, path: Path, text: str, severity: LintSeverity = LintSeverity.WARNING
) -> Finding:
    return Finding(place=document.place_of(path), severity=severity, text=text)
