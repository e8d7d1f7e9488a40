"""Loads benchmark files: parses YAML, expands variables, and reports errors with their position."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final

from pydantic import ValidationError

from app.core.console.input_files import open_input
from app.core.errors import AppError, ErrorItem
from app.core.registry import suggest_names
from app.harness.lint import LintSeverity
from app.harness.mcp.config import UNKNOWN_KEYS, McpBenchmark
from app.harness.mcp.secrets import Secrets, UndefinedVariable, expand_variables
from app.harness.mcp.yaml_parser import (
    MAX_BYTES,
    InvalidYaml,
    SourcePosition,
    YamlDocument,
    YamlPath,
    parse_yaml,
)

MAX_SHOWN_ERRORS: Final = 20

_EXPANDED_SECTIONS: Final = ("servers", "llm")


class InvalidBenchmarkFile(AppError):
    """A benchmark file is invalid; correct the listed errors."""

    code = "bad-benchmark-file"
    status = 422
    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding:
    """A flaw of a file and its position."""

    position: SourcePosition
    severity: LintSeverity
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFile:
    """A loaded file and its findings; `bench` is None when the file is invalid."""

    name: str
    bench: McpBenchmark | None
    document: YamlDocument
    findings: tuple[LintFinding, ...] = field(default=())

    @property
    def errors(self) -> list[LintFinding]:
        return [finding for finding in self.findings if finding.severity is LintSeverity.ERROR]


def load_file(
    path: FilePath,
    secrets: Secrets,
    environment: Mapping[str, str],
    *,
    expand_variables: bool = True,
) -> LoadedFile:
    """Load a file; without `expand_variables` its variables are kept as text.

    Raises: UnreadableInput. Errors in the content are findings.
    """
    with open_input(path) as file:
        raw = file.read(MAX_BYTES + 1)
    return load_text(raw, str(path), secrets, environment, expand_variables=expand_variables)


def load_text(
    raw: bytes,
    name: str,
    secrets: Secrets,
    environment: Mapping[str, str],
    *,
    expand_variables: bool = True,
) -> LoadedFile:
    """Load the content of a file; `name` identifies it in messages."""
    try:
        document = parse_yaml(raw)
    except InvalidYaml as bad:
        finding = LintFinding(position=bad.position, severity=LintSeverity.ERROR, text=bad.text)
        return LoadedFile(name=name, bench=None, document=YamlDocument(), findings=(finding,))
    findings: list[LintFinding] = []
    if expand_variables and isinstance(document.value, dict):
        for key in _EXPANDED_SECTIONS:
            if key in document.value:
                expander = _VariableExpander(document, secrets, environment, findings)
                document.value[key] = expander.expand_value(document.value[key], (key,))
    bench = None
    try:
        bench = McpBenchmark.model_validate(document.value)
    except ValidationError as error:
        findings += _validation_findings(error, document)
    return LoadedFile(name=name, bench=bench, document=document, findings=tuple(findings))


def require_valid(files: Iterable[LoadedFile]) -> None:
    """Raise InvalidBenchmarkFile with the errors of these files; warnings are ignored."""
    errors = [(file, finding) for file in files for finding in file.errors]
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


def format_position(file: LoadedFile, finding: LintFinding) -> str:
    """`bench.yaml:3:7`: file, line and column, as editors expect them."""
    return f"{file.name}:{finding.position.line}:{finding.position.column}"


class _VariableExpander:
    """Expands the variables in a section of a document and reports variables without a value."""

    def __init__(
        self,
        document: YamlDocument,
        secrets: Secrets,
        environment: Mapping[str, str],
        findings: list[LintFinding],
    ) -> None:
        self._document = document
        self._secrets = secrets
        self._environment = environment
        self._findings = findings

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
            self._report(path, f"{missing}; {self._suggest_fix(path)}")
            return text
        if _server_section(path) == "headers" and "${" in expanded:
            self._report(path, f"the header still contains a variable; {self._suggest_fix(path)}")
        return expanded

    def _find_value(self, name: str, path: YamlPath) -> str | None:
        """The value of a variable: from secrets and, in `env` of a server only, from the host."""
        value = self._secrets.values.get(name)
        return (
            self._environment.get(name)
            if value is None and _server_section(path) == "env"
            else value
        )

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
            else:
                self._report(
                    (*path, "pass_env", i),
                    f"the variable {name} is not set in the environment; set it, or remove it here",
                )
        return {**server, "env": passed | env} if isinstance(env, dict) else server

    def _suggest_fix(self, path: YamlPath) -> str:
        suggestion = f"add it to {self._secrets.location()}"
        if _server_section(path) == "env":
            suggestion += ", set it in the environment"
        return f"{suggestion}, or write ${{NAME:-default}}"

    def _report(self, path: YamlPath, text: str) -> None:
        position = self._document.position_of(path)
        location = "/".join(map(str, path))
        self._findings.append(
            LintFinding(position=position, severity=LintSeverity.ERROR, text=f"{location}: {text}")
        )


def _server_section(path: YamlPath) -> str | None:
    """The section of a server that holds this path, such as `env` or `headers`; None elsewhere."""
    inside = len(path) == 4 and path[0] == "servers"  # noqa: PLR2004 - servers/name/env/KEY
    return str(path[2]) if inside else None


def _validation_findings(error: ValidationError, document: YamlDocument) -> Iterable[LintFinding]:
    for detail in error.errors(include_url=False, include_input=False):
        path = _document_path(detail["loc"], document.value)
        if detail["type"] == UNKNOWN_KEYS:
            context = detail["ctx"]
            for key in context["keys"]:
                suggestion = suggest_names(key, context["known"])
                known_keys = "" if suggestion else f" Known: {', '.join(context['known'])}."
                text = f"unknown key {key!r}.{suggestion}{known_keys}"
                yield _finding(document, (*path, key), text, key=True)
        else:
            yield _finding(
                document, path, _describe_error(detail["loc"], detail["type"], detail["msg"])
            )


def _describe_error(loc: tuple[str | int, ...], error_type: str, message: str) -> str:
    if error_type == "missing":
        return f"{loc[-1]} is missing"
    if not loc:
        return "a benchmark file must be a mapping with `scenarios:`"
    location = "/".join(map(str, loc))
    return f"{location}: {message[:1].lower()}{message[1:]}" if location else message


def _document_path(loc: tuple[str | int, ...], value: Any) -> YamlPath:
    """The document path of a model error. Steps that name a variant of a union are not in the document."""
    path: list[str | int] = []
    for step in loc:
        if _has_step(value, step):
            value = value[step]
            path.append(step)
    return tuple(path)


def _has_step(value: Any, step: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value


def _finding(
    document: YamlDocument, path: YamlPath, text: str, *, key: bool = False
) -> LintFinding:
    return LintFinding(
        position=document.position_of(path, key=key), severity=LintSeverity.ERROR, text=text
    )
