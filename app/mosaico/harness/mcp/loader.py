"""Loads benchmark files: parses YAML, expands variables, and reports errors with their position."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mosaico.core.console.files import open_input
from mosaico.core.errors import ErrorItem, UnusableInput
from mosaico.core.masking import SHORTEST_SECRET, is_secret_name
from mosaico.core.registry import suggest_names
from mosaico.harness.lint import LintSeverity, LocatedFinding
from mosaico.harness.mcp.config import (
    HEADER_NAME_PATTERN,
    SERVER_NAME_PATTERN,
    UNKNOWN_KEYS,
    URL_HINT,
    URL_PATTERN,
    VARIABLE_PATTERN,
    McpBenchmark,
)
from mosaico.harness.mcp.secrets import (
    MalformedVariable,
    Secrets,
    UndefinedVariable,
    expand_variables,
)
from mosaico.harness.mcp.yaml_parser import (
    MAX_BYTES,
    InvalidYaml,
    SourcePosition,
    YamlDocument,
    YamlPath,
    parse_yaml,
)
from mosaico.harness.validation_messages import Flaw, describe_errors, document_path

MAX_SHOWN_ERRORS: Final = 20

_NOT_A_BENCHMARK: Final = "a benchmark file must be a mapping with `scenarios:`"
_RULES: Final = {
    SERVER_NAME_PATTERN: "a server name has at most 40 letters, digits, `_` and `-`",
    VARIABLE_PATTERN: "a variable name has letters, digits and `_`, and does not begin with a digit",
    HEADER_NAME_PATTERN: "a header name is one word of letters, digits and `-`",
    URL_PATTERN: URL_HINT,
    "'type'": "type is missing; write stdio, http or sse",
}


class InvalidBenchmarkFile(UnusableInput):
    """A benchmark file is invalid; correct the listed errors."""

    code = "bad-benchmark-file"


class TaskIndex(NamedTuple):
    """The position of a task: the index of its scenario, and its index in the scenario."""

    scenario: int
    task: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding:
    """A flaw of a file and its position.

    `part` is the path of the task, server, evaluator or default that an error makes unusable; None
    is the whole file.
    """

    position: SourcePosition
    severity: LintSeverity
    text: str
    part: YamlPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFile:
    """A loaded file and its findings; `bench` is None when the file is invalid.

    `refusals` contains the reasons why tasks cannot run although the file is valid.
    `host_variables` are those of the environment that its servers get; their values may be secrets.
    """

    name: str
    bench: McpBenchmark | None
    document: YamlDocument
    findings: tuple[LintFinding, ...] = field(default=())
    refusals: Mapping[TaskIndex, str] = field(default_factory=dict)
    host_variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def errors(self) -> list[LintFinding]:
        """All errors, also those that refuse only some tasks."""
        return [finding for finding in self.findings if finding.severity is LintSeverity.ERROR]

    def located_findings(self) -> list[LocatedFinding]:
        """The findings with the name of the file, to print them."""
        return [
            LocatedFinding(
                location=format_position(self, finding),
                position={
                    "file": self.name,
                    "line": finding.position.line,
                    "column": finding.position.column,
                },
                severity=finding.severity,
                text=finding.text,
            )
            for finding in self.findings
        ]


def load_file(
    path: FilePath,
    secrets: Secrets,
    environment: Mapping[str, str],
    *,
    undefined: LintSeverity = LintSeverity.ERROR,
) -> LoadedFile:
    """Load a file; a variable without a value is a finding of the severity `undefined`.

    Raises: UnreadableInput. Errors in the content are findings.
    """
    with open_input(path) as file:
        raw = file.read(MAX_BYTES + 1)
    return load_text(raw, str(path), secrets, environment, undefined=undefined)


def load_text(
    raw: bytes,
    name: str,
    secrets: Secrets,
    environment: Mapping[str, str],
    *,
    undefined: LintSeverity = LintSeverity.ERROR,
) -> LoadedFile:
    """Load the content of a file; `name` identifies it in messages."""
    try:
        document = parse_yaml(raw)
    except InvalidYaml as bad:
        finding = LintFinding(position=bad.position, severity=LintSeverity.ERROR, text=bad.text)
        return LoadedFile(name=name, bench=None, document=YamlDocument(), findings=(finding,))
    expander = _VariableExpander(document, secrets, environment, undefined)
    document.value = expander.expand_value(document.value, ())
    findings = expander.findings
    bench = None
    try:
        bench = McpBenchmark.model_validate(document.value)
    except ValidationError as error:
        findings += _validation_findings(error, document)
    return LoadedFile(
        name=name,
        bench=bench,
        document=document,
        findings=tuple(findings),
        host_variables=expander.host_variables,
    )


def require_valid(files: Iterable[LoadedFile], *, strict: bool = False) -> None:
    """Raise InvalidBenchmarkFile with the errors of these files; warnings are ignored.

    An error that refuses only some tasks is ignored unless `strict`: the other tasks can run.
    """
    errors = [
        (file, finding)
        for file in files
        for finding in file.errors
        if strict or finding.part is None
    ]
    if errors:
        names = ", ".join(dict.fromkeys(file.name for file, _ in errors))
        raise InvalidBenchmarkFile(
            f"{names} is invalid",
            errors=[
                ErrorItem(pointer=format_position(file, finding), detail=finding.text)
                for file, finding in errors[:MAX_SHOWN_ERRORS]
            ],
            hint=f"`ot-bench validate {errors[0][0].name}` lists all errors",
        )


def secret_values(files: Iterable[LoadedFile], secrets: Secrets) -> frozenset[str]:
    """The values to mask everywhere: of the secrets file, and of passed variables named like a secret."""
    variables = (pair for file in files for pair in file.host_variables.items())
    passed = {text for name, text in variables if is_secret_name(name) and _is_masked(text)}
    return frozenset(passed.union(secrets.values.values()))


def host_values(files: Iterable[LoadedFile]) -> frozenset[str]:
    """The values of passed variables, which are masked in messages about servers."""
    values = (text for file in files for text in file.host_variables.values())
    return frozenset(text for text in values if _is_masked(text))


def _is_masked(host_value: str) -> bool:
    """Return whether a value of the environment may be a secret: `1` or `on` is none."""
    return len(host_value) >= SHORTEST_SECRET


def format_position(file: LoadedFile, finding: LintFinding) -> str:
    """`bench.yaml:3:7`: file, line and column, as editors expect them."""
    return f"{file.name}:{finding.position.line}:{finding.position.column}"


class _VariableExpander:
    """Expands the variables of a document and reports variables without a value."""

    def __init__(
        self,
        document: YamlDocument,
        secrets: Secrets,
        environment: Mapping[str, str],
        undefined: LintSeverity,
    ) -> None:
        self.findings: list[LintFinding] = []
        self.host_variables: dict[str, str] = {}
        self._document = document
        self._secrets = secrets
        self._environment = environment
        self._undefined = undefined

    def expand_value(self, value: Any, path: YamlPath) -> Any:
        if isinstance(value, dict):
            expanded = {
                key: self.expand_value(element, (*path, key)) for key, element in value.items()
            }
            return self._add_passed_variables(expanded, path)
        if isinstance(value, list):
            return [self.expand_value(element, (*path, i)) for i, element in enumerate(value)]
        return self._expand_text(value, path) if isinstance(value, str) else value

    def _expand_text(self, text: str, path: YamlPath) -> str:
        try:
            expanded = expand_variables(text, lambda name: self._find_value(name, path))
        except UndefinedVariable as missing:
            self._report(path, f"{missing}; {self._suggest_fix(path)}", self._undefined)
            return text
        except MalformedVariable as malformed:
            self._report(path, str(malformed))
            return text
        if _server_section(path) == "headers" and "${" in expanded:
            self._report(path, f"the header still contains a variable; {self._suggest_fix(path)}")
        return expanded

    def _find_value(self, name: str, path: YamlPath) -> str | None:
        """The value of a variable: from secrets and, in `env` of a server only, from the host."""
        secret = self._secrets.values.get(name)
        if secret is not None or _server_section(path) != "env":
            return secret
        host_value = self._environment.get(name)
        if host_value is not None:
            self.host_variables[name] = host_value
        return host_value

    def _add_passed_variables(self, server: dict[str, Any], path: YamlPath) -> dict[str, Any]:
        """The server with the host variables of `pass_env` added to its `env`."""
        names = server.get("pass_env")
        if len(path) != 2 or path[0] != "servers" or not isinstance(names, list):  # noqa: PLR2004
            return server
        env = server.get("env", {})
        passed = {}
        for i, name in enumerate(names):
            if isinstance(name, str) and name in self._environment:
                passed[name] = self._environment[name]
                self.host_variables[name] = passed[name]
            else:
                self._report(
                    (*path, "pass_env", i),
                    f"the variable {name} is not set in the environment; set it, or remove it here",
                    self._undefined,
                )
        return {**server, "env": passed | env} if isinstance(env, dict) else server

    def _suggest_fix(self, path: YamlPath) -> str:
        suggestion = f"add it to {self._secrets.location()}"
        if _server_section(path) == "env":
            suggestion += ", set it in the environment"
        return f"{suggestion}, write ${{NAME:-default}}, or write $${{ for a literal ${{"

    def _report(
        self, path: YamlPath, text: str, severity: LintSeverity = LintSeverity.ERROR
    ) -> None:
        position = self._document.position_of(path)
        finding = LintFinding(
            position=position,
            severity=severity,
            text=Flaw(path, text).located_text(),
            part=part_of(path),
        )
        self.findings.append(finding)


def part_of(path: YamlPath) -> YamlPath | None:
    """The task, server, evaluator or default that holds this path; None for the rest of a file."""
    match path:
        case ("servers" | "evaluators", _, *_):
            return path[:2]
        case ("scenarios", _, "tasks", _, *_):
            return path[:4]
        case ("defaults", "direct" | "harness", "server", *_):
            return path[:3]
        case ("defaults", "direct" | "harness", _, *_):
            return path[:2]
    return None


def _server_section(path: YamlPath) -> str | None:
    """The section of a server that holds this path, such as `env` or `headers`; None elsewhere."""
    inside = len(path) == 4 and path[0] == "servers"  # noqa: PLR2004 - servers/name/env/KEY
    return str(path[2]) if inside else None


def _validation_findings(error: ValidationError, document: YamlDocument) -> Iterable[LintFinding]:
    details = error.errors(include_url=False, include_input=False)
    for detail in details:
        if detail["type"] == UNKNOWN_KEYS:
            yield from _unknown_keys(detail, document)
    known_flaws = [detail for detail in details if detail["type"] != UNKNOWN_KEYS]
    for flaw in describe_errors(known_flaws, document.value or {}, _RULES):
        has_place = bool(flaw.path) or "is missing" in flaw.text
        text = flaw.located_text() if has_place else _NOT_A_BENCHMARK
        yield _finding(document, flaw.path, text)


def _unknown_keys(detail: ErrorDetails, document: YamlDocument) -> Iterable[LintFinding]:
    context = detail["ctx"]
    path = document_path(detail["loc"], document.value)
    for key in context["keys"]:
        suggestion = suggest_names(key, context["known"])
        known_keys = "" if suggestion else f" Known: {', '.join(context['known'])}."
        yield _finding(
            document, (*path, key), f"unknown key {key!r}.{suggestion}{known_keys}", key=True
        )


def _finding(
    document: YamlDocument, path: YamlPath, text: str, *, key: bool = False
) -> LintFinding:
    return LintFinding(
        position=document.position_of(path, key=key), severity=LintSeverity.ERROR, text=text
    )
