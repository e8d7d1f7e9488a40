"""Checks benchmark files beyond their format: references, duplicate names, naming conventions."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from mosaico.core.registry import suggest_names
from mosaico.harness.lint import LintSeverity
from mosaico.harness.mcp.config import (
    DirectTask,
    EvaluatorConfig,
    HarnessTask,
    McpBenchmark,
    servers_of,
    split_prompts,
    verifications_of,
)
from mosaico.harness.mcp.evaluator_registry import validate_evaluator, warn_evaluator
from mosaico.harness.mcp.loader import LintFinding, LoadedFile, TaskIndex, part_of
from mosaico.harness.mcp.yaml_parser import YamlDocument, YamlPath
from mosaico.harness.text_search import InvalidPattern, compile_pattern
from mosaico.llm.conversation import Provider
from mosaico.llm.model_families import unsupported_reason

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
_TASK_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*(:[a-z0-9][a-z0-9_.-]*){1,2}")


def lint(file: LoadedFile) -> LoadedFile:
    """The file with all findings, in the order of the lines, and the refusals of its tasks."""
    findings = list(file.findings)
    if file.bench is not None:
        findings += _Linter(file.bench, file.document).findings()
    findings += [
        _finding(
            file.document,
            path,
            f"{text!r} is text here, but another type in YAML 1.1; quote it",
        )
        for path, text in file.document.ambiguous_texts.items()
    ]
    findings.sort(key=lambda finding: finding.position)
    refusals = dict(_refusals(file.bench, findings)) if file.bench is not None else {}
    return replace(file, findings=tuple(findings), refusals=refusals)


def _refusals(
    bench: McpBenchmark, findings: Iterable[LintFinding]
) -> Iterable[tuple[TaskIndex, str]]:
    """The tasks that cannot run, each with the first error of the parts that it uses."""
    reasons: dict[YamlPath, str] = {}
    for finding in findings:
        if finding.severity is LintSeverity.ERROR and finding.part is not None:
            reasons.setdefault(finding.part, finding.text)
    for i, scenario in enumerate(bench.scenarios):
        for k, task in enumerate(scenario.tasks):
            index = TaskIndex(i, k)
            reason = next(
                (reasons[part] for part in _parts(bench, index, task) if part in reasons), None
            )
            if reason is not None:
                yield index, reason


def _parts(
    bench: McpBenchmark, index: TaskIndex, task: HarnessTask | DirectTask
) -> Iterable[YamlPath]:
    """The parts of the file that a task uses."""
    yield ("scenarios", index.scenario, "tasks", index.task)
    yield ("defaults", task.type)
    if "server" not in task.model_fields_set:
        yield ("defaults", task.type, "server")
    if isinstance(task.evaluate, str):
        yield ("evaluators", task.evaluate)
    for name in servers_of(task, getattr(bench.defaults, task.type)):
        yield ("servers", name)
    for verification in verifications_of(task):
        if isinstance(verification.evaluate, str):
            yield ("evaluators", verification.evaluate)
        if verification.server is not None:
            yield ("servers", verification.server)


class _Linter:
    """Checks one valid benchmark."""

    def __init__(self, bench: McpBenchmark, document: YamlDocument) -> None:
        self._bench = bench
        self._document = document

    def findings(self) -> Iterable[LintFinding]:
        for name, server in self._bench.servers.items():
            if server.ready is not None:
                yield from self._check_pattern(
                    server.ready.regex, ("servers", name, "ready", "regex")
                )
        for name, evaluator in self._bench.evaluators.items():
            yield from self._check_evaluator(evaluator, ("evaluators", name))
        yield from self._check_defaults()
        yield from self._check_options()
        scenario_names: set[str] = set()
        for i, scenario in enumerate(self._bench.scenarios):
            path: YamlPath = ("scenarios", i)
            if scenario.name in scenario_names:
                yield self._file_error(
                    (*path, "name"), f"another scenario is already named {scenario.name!r}"
                )
            scenario_names.add(scenario.name)
            task_names: set[str] = set()
            for k, task in enumerate(scenario.tasks):
                task_path = (*path, "tasks", k)
                if task.name in task_names:
                    # Results are identified by the names: two tasks would be one.
                    yield self._file_error(
                        (*task_path, "name"), f"another task is already named {task.name!r}"
                    )
                task_names.add(task.name)
                yield from self._check_task(task, task_path)

    def _check_pattern(self, pattern: str, path: YamlPath) -> Iterable[LintFinding]:
        try:
            compile_pattern(pattern)
        except InvalidPattern as error:
            yield self._error(path, f"the pattern {pattern!r} is invalid: {error}")

    def _check_defaults(self) -> Iterable[LintFinding]:
        defaults = self._bench.defaults
        for task_type in ("direct", "harness"):
            type_defaults = getattr(defaults, task_type)
            yield from self._check_servers(type_defaults.server, ("defaults", task_type, "server"))
            yield from self._check_tags(type_defaults.tags, ("defaults", task_type, "tags"))

    def _check_options(self) -> Iterable[LintFinding]:
        """Warn about options that a model does not take; a command can still name another model."""
        llm, defaults = self._bench.llm, self._bench.defaults
        tasks = [task for scenario in self._bench.scenarios for task in scenario.tasks]
        models = dict.fromkeys(
            task.model or defaults.harness.model or defaults.model
            for task in tasks
            if isinstance(task, HarnessTask)
        )
        for model in models:
            reason = unsupported_reason(Provider(llm.provider), model, llm.turn_settings())
            if reason is not None:
                yield self._warning(("llm",), reason)

    def _check_task(self, task: HarnessTask | DirectTask, path: YamlPath) -> Iterable[LintFinding]:
        if not _TASK_NAME.fullmatch(task.name):
            text = f"the name {task.name!r} does not have the form category:subcategory:detail"
            yield self._warning((*path, "name"), text)
        yield from self._check_tags(task.tags, (*path, "tags"))
        yield from self._check_servers(task.server, (*path, "server"))
        if isinstance(task, DirectTask):
            yield from self._check_direct_task(task, path)
        elif not split_prompts(task.prompt):
            yield self._error((*path, "prompt"), "the prompt contains no text; add some")
        yield from self._check_evaluate(task.evaluate, (*path, "evaluate"))
        yield from self._check_verifications(task, path)

    def _check_verifications(
        self, task: HarnessTask | DirectTask, path: YamlPath
    ) -> Iterable[LintFinding]:
        has_servers = bool(servers_of(task, self._bench.defaults.harness))
        for i, verification in enumerate(verifications_of(task)):
            place = (*path, "verify", i)
            if verification.server is None and not has_servers:
                yield self._error(place, "a verification needs a server; add the key server")
            yield from self._check_servers(verification.server, (*place, "server"))
            yield from self._check_evaluate(verification.evaluate, (*place, "evaluate"))

    def _check_direct_task(self, task: DirectTask, path: YamlPath) -> Iterable[LintFinding]:
        defaults = self._bench.defaults.direct
        if task.tool is None and defaults.tool is None:
            yield self._error((*path, "tool"), "a direct task needs a tool; add the key tool")
        if not servers_of(task, defaults):
            yield self._error((*path, "server"), "a direct task needs a server; name it")

    def _check_servers(
        self, names: str | list[str] | None, path: YamlPath
    ) -> Iterable[LintFinding]:
        server_names = [names] if isinstance(names, str) else names or []
        known_names = list(self._bench.servers)
        for name in server_names:
            if name not in known_names:
                suggestion = suggest_names(name, known_names)
                yield self._error(path, f"unknown server {name!r}.{suggestion}")
        if len(set(server_names)) < len(server_names):
            yield self._error(path, "a server is listed twice; remove one of them")

    def _check_evaluate(
        self, evaluate: str | EvaluatorConfig | None, path: YamlPath
    ) -> Iterable[LintFinding]:
        if isinstance(evaluate, EvaluatorConfig):
            yield from self._check_evaluator(evaluate, path)
        elif evaluate is not None and evaluate not in self._bench.evaluators:
            suggestion = suggest_names(evaluate, list(self._bench.evaluators))
            yield self._error(path, f"unknown evaluator {evaluate!r}.{suggestion}")

    def _check_evaluator(self, evaluator: EvaluatorConfig, path: YamlPath) -> Iterable[LintFinding]:
        for text in validate_evaluator(evaluator):
            yield self._error(path, text)
        for text in warn_evaluator(evaluator):
            yield self._warning(path, text)

    def _check_tags(self, tags: list[str], path: YamlPath) -> Iterable[LintFinding]:
        for i, tag in enumerate(tags):
            if tag not in _KNOWN_TAGS:
                suggestion = suggest_names(tag, _KNOWN_TAGS)
                yield self._warning(
                    (*path, i), f"the tag {tag!r} is not in the taxonomy.{suggestion}"
                )

    def _error(self, path: YamlPath, text: str) -> LintFinding:
        return replace(_finding(self._document, path, text, LintSeverity.ERROR), part=part_of(path))

    def _file_error(self, path: YamlPath, text: str) -> LintFinding:
        return _finding(self._document, path, text, LintSeverity.ERROR)

    def _warning(self, path: YamlPath, text: str) -> LintFinding:
        return _finding(self._document, path, text)


def _finding(
    document: YamlDocument, path: YamlPath, text: str, severity: LintSeverity = LintSeverity.WARNING
) -> LintFinding:
    return LintFinding(position=document.position_of(path), severity=severity, text=text)
