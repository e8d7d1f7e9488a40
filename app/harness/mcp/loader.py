"""Reads benchmark files: YAML to models, with the place of every mistake."""

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
from app.harness.mcp.secrets import NoSuchVariable, Secrets, expand
from app.harness.mcp.yaml_text import MAX_BYTES, BadYaml, Document, Path, Place, parse_yaml

SHOWN: Final = 20

_EXPANDED: Final = ("servers", "llm")


class InvalidMcpFile(AppError):
    """A benchmark file cannot be used; mend the places that are named."""

    code = "bad-benchmark-file"
    status = 422
    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something to mend in a file, and where."""

    place: Place
    severity: LintSeverity
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpFile:
    """A file as it was read; `bench` is None when it could not be understood."""

    name: str
    bench: McpBenchmark | None
    document: Document
    findings: tuple[Finding, ...] = field(default=())

    @property
    def errors(self) -> list[Finding]:
        return [each for each in self.findings if each.severity is LintSeverity.ERROR]


def inspect_file(
    path: FilePath, secrets: Secrets, environment: Mapping[str, str], *, expanded: bool = True
) -> McpFile:
    """A file and what is wrong with it; without `expanded` its variables stay. Raises UnreadableInput."""
    with open_input(path) as file:
        raw = file.read(MAX_BYTES + 1)
    return inspect_text(raw, str(path), secrets, environment, expanded=expanded)


def inspect_text(
    raw: bytes,
    name: str,
    secrets: Secrets,
    environment: Mapping[str, str],
    *,
    expanded: bool = True,
) -> McpFile:
    """The same from bytes; `name` is what errors call them."""
    try:
        document = parse_yaml(raw)
    except BadYaml as bad:
        finding = Finding(place=bad.place, severity=LintSeverity.ERROR, text=bad.text)
        return McpFile(name=name, bench=None, document=Document(), findings=(finding,))
    findings: list[Finding] = []
    if expanded and isinstance(document.value, dict):
        for key in _EXPANDED:
            if key in document.value:
                filling = _Filling(document, secrets, environment, findings)
                document.value[key] = filling.of(document.value[key], (key,))
    bench = None
    try:
        bench = McpBenchmark.model_validate(document.value)
    except ValidationError as error:
        findings += _mistakes(error, document)
    return McpFile(name=name, bench=bench, document=document, findings=tuple(findings))


def require_usable(files: Iterable[McpFile]) -> None:
    """Raise InvalidMcpFile with every error of these files; warnings do not matter."""
    wrong = [(file, each) for file in files for each in file.errors]
    if wrong:
        names = ", ".join(dict.fromkeys(file.name for file, _ in wrong))
        raise InvalidMcpFile(
            f"{names} cannot be used",
            errors=[
                ErrorItem(pointer=pointer(file, each), detail=each.text)
                for file, each in wrong[:SHOWN]
            ],
            hint=f"`ot-bench validate {wrong[0][0].name}` shows everything that is to be mended",
        )


def pointer(file: McpFile, finding: Finding) -> str:
    """`bench.yaml:3:7`, as editors jump to it."""
    return f"{file.name}:{finding.place.line}:{finding.place.column}"


class _Filling:
    """Fills in the variables of a part of a document."""

    def __init__(
        self,
        document: Document,
        secrets: Secrets,
        environment: Mapping[str, str],
        findings: list[Finding],
    ) -> None:
        self._document = document
        self._secrets = secrets
        self._environment = environment
        self._findings = findings

    def of(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            filled = {key: self.of(each, (*path, key)) for key, each in value.items()}
            return self._with_passed(filled, path)
        if isinstance(value, list):
            return [self.of(each, (*path, i)) for i, each in enumerate(value)]
        return self._text(value, path) if isinstance(value, str) else value

    def _text(self, text: str, path: Path) -> str:
        try:
            filled = expand(text, lambda name: self._find(name, path))
        except NoSuchVariable as missing:
            self._tell(path, f"{missing}; {self._remedy(path)}")
            return text
        if _part(path) == "headers" and "${" in filled:
            self._tell(path, f"a header still holds a variable; {self._remedy(path)}")
        return filled

    def _find(self, name: str, path: Path) -> str | None:
        """Secrets, and for what a program is started with then the host, for passing through."""
        found = self._secrets.values.get(name)
        return self._environment.get(name) if found is None and _part(path) == "env" else found

    def _with_passed(self, filled: dict[str, Any], path: Path) -> dict[str, Any]:
        """A server with what `pass_env` names in its `env`."""
        names = filled.get("pass_env")
        if len(path) != 2 or path[0] != "servers" or not isinstance(names, list):  # noqa: PLR2004
            return filled
        env = filled.get("env", {})
        passed = {}
        for i, name in enumerate(names):
            if isinstance(name, str) and name in self._environment:
                passed[name] = self._environment[name]
            else:
                self._tell(
                    (*path, "pass_env", i), f"the variable {name} is not set; set it, or remove it"
                )
        return {**filled, "env": passed | env} if isinstance(env, dict) else filled

    def _remedy(self, path: Path) -> str:
        where = f"add it to {self._secrets.where()}"
        if _part(path) == "env":
            where += ", set it in the environment"
        return f"{where}, or write ${{NAME:-default}}"

    def _tell(self, path: Path, text: str) -> None:
        place = self._document.place_of(path)
        named = "/".join(map(str, path))
        self._findings.append(
            Finding(place=place, severity=LintSeverity.ERROR, text=f"{named}: {text}")
        )


def _part(path: Path) -> str | None:
    """`env` or `headers` for what stands in those of a server."""
    inside = len(path) == 4 and path[0] == "servers"  # noqa: PLR2004 - servers/name/env/KEY
    return str(path[2]) if inside else None


def _mistakes(error: ValidationError, document: Document) -> Iterable[Finding]:
    for each in error.errors(include_url=False, include_input=False):
        path = _path_of(each["loc"], document.value)
        if each["type"] == UNKNOWN_KEYS:
            context = each["ctx"]
            for key in context["keys"]:
                near = suggest_names(key, context["known"])
                known = "" if near else f" Known: {', '.join(context['known'])}."
                text = f"the key {key!r} is not known.{near}{known}"
                yield _finding(document, (*path, key), text, key=True)
        else:
            yield _finding(document, path, _said(each["loc"], each["type"], each["msg"]))


def _said(loc: tuple[str | int, ...], kind: str, message: str) -> str:
    if kind == "missing":
        return f"{loc[-1]} is missing"
    if not loc:
        return "a benchmark file is a mapping with `scenarios:`"
    named = "/".join(map(str, loc))
    return f"{named}: {message[:1].lower()}{message[1:]}" if named else message


def _path_of(loc: tuple[str | int, ...], value: Any) -> Path:
    """Where in the document a place of the models is; the names of variants are no steps."""
    path: list[str | int] = []
    for step in loc:
        if _has(value, step):
            value = value[step]
            path.append(step)
    return tuple(path)


def _has(value: Any, step: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, dict) and step in value


def _finding(document: Document, path: Path, text: str, *, key: bool = False) -> Finding:
    return Finding(place=document.place_of(path, key=key), severity=LintSeverity.ERROR, text=text)
