"""Reads a project file: YAML with variables of the environment; each error has a line and a column."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import to_jsonable_python

from mosaico.core.console.files import InvalidInput, open_input
from mosaico.core.errors import ErrorItem
from mosaico.core.registry import suggest_names
from mosaico.core.text import map_json_texts
from mosaico.harness.mcp.secrets import MalformedVariable, UndefinedVariable, expand_variables
from mosaico.harness.mcp.yaml_parser import (
    MAX_BYTES,
    InvalidYaml,
    SourcePosition,
    YamlDocument,
    YamlPath,
    parse_yaml,
)
from mosaico.harness.validation_messages import describe_errors
from mosaico.project_file.kinds import (
    BENCHMARK_SECTIONS,
    SECTIONS,
    FileObject,
    ObjectKey,
    ObjectKind,
    ProjectFile,
)
from mosaico.project_file.schema import document_model, field_names

MAX_SHOWN_ERRORS: Final = 20
# Fields that the service stores encrypted and does not return.
_SECRET_FIELDS: Final = frozenset({"langfuseSecretKey", "secretKey", "runUrl"})
# A URL of a chat is a credential, an address of mail is not.
_RECIPIENT_FIELDS: Final = frozenset({"recipient", "recipients"})
_VARIABLE: Final = re.compile(r"(?<!\$)\$\{")


class InvalidProjectFile(InvalidInput):
    """The project file has errors; correct them as described."""


class BenchmarkNotInFile(InvalidInput):
    """The project file has no such benchmark, or several; name one with --benchmark."""


def read_project_file(path: Path, environment: Mapping[str, str]) -> ProjectFile:
    """The content of a file, `-` for standard input.

    Raises: `UnreadableInput`, `InvalidProjectFile` with every error: unknown fields, wrong values, secrets that
            are written out, variables that are not set, and names of objects that the file does not have.
    """
    return parse_project_file(_read_bytes(path), environment, str(path))


def parse_project_file(raw: bytes, environment: Mapping[str, str], source: str) -> ProjectFile:
    """The content of a file whose text is `raw`; errors name it `source`. Raises: as `read_project_file`."""
    text = _SourceText(source, _parse(raw, source))
    return text.read(text.document.value, environment)


def read_benchmark(path: Path, environment: Mapping[str, str], name: str | None) -> FileObject:
    """The benchmark of a file for judging results: with its KPIs as `measures`, as in a body of the API.

    Nothing else of the file is read: a variable of an agent need not be set. Without a name, the only benchmark.
    Raises: as `read_project_file`, `BenchmarkNotInFile`.
    """
    text = _SourceText(str(path), _parse(_read_bytes(path), str(path)))
    document = text.document.value
    benchmarks = document.get("benchmarks") if isinstance(document, dict) else None
    if not isinstance(benchmarks, dict) or not benchmarks:
        # The errors of the file come first: it may be no project file at all.
        text.read(document, environment)
        raise BenchmarkNotInFile(f"{path} has no benchmark", hint="add one under `benchmarks`")
    chosen = _choose_benchmark(str(path), benchmarks, name)
    entry = benchmarks[chosen]
    if isinstance(entry, dict):
        entry = {
            key: value
            for key, value in entry.items()
            if key not in ("agents", "rules", "schedules")
        }
    part = {**document, "benchmarks": {chosen: entry}}
    for section in ("agents", "endpoints"):
        part.pop(section, None)
    content = text.read(part, environment)
    [benchmark] = content.of_kind(ObjectKind.BENCHMARK)
    measures = [
        {"name": kpi.key.name, **kpi.fields} for kpi in content.of_kind(ObjectKind.KPI, chosen)
    ]
    fields = {**benchmark.fields, **({"measures": measures} if measures else {})}
    return FileObject(key=benchmark.key, fields=fields, variables=benchmark.variables)


def _choose_benchmark(source: str, benchmarks: Mapping[str, Any], name: str | None) -> str:
    if name is None and len(benchmarks) == 1:
        return next(iter(benchmarks))
    if name in benchmarks:
        return str(name)
    existing = ", ".join(benchmarks)
    if name is None:
        raise BenchmarkNotInFile(
            f"{source} has several benchmarks: {existing}", hint="name one with --benchmark NAME"
        )
    suggestion = suggest_names(name, list(benchmarks)) or f" It has {existing}."
    raise BenchmarkNotInFile(
        f"{source} has no benchmark {name!r}.{suggestion}", hint="name one with --benchmark NAME"
    )


def _read_bytes(path: Path) -> bytes:
    with open_input(path) as file:
        return file.read(MAX_BYTES + 1)


def _parse(raw: bytes, source: str) -> YamlDocument:
    try:
        return parse_yaml(raw)
    except InvalidYaml as flaw:
        line, column = flaw.position
        rows = raw.decode(errors="replace").splitlines()
        is_variable = "${" in "".join(rows[line - 1 : line])
        remedy = '; within [] and {} write "${NAME}" with its quotes' if is_variable else ""
        raise InvalidProjectFile(
            f"{source} is not valid YAML",
            errors=[ErrorItem(pointer=f"{source}:{line}:{column}", detail=f"{flaw.text}{remedy}")],
        ) from None


@dataclass(slots=True)
class _SourceText:
    """A parsed text, and the errors in it."""

    source: str
    document: YamlDocument
    errors: list[tuple[SourcePosition, str]] = field(default_factory=list)

    def read(self, value: Any, environment: Mapping[str, str]) -> ProjectFile:
        """The content of a document with the positions of this text."""
        expanded = self._expand(value, (), environment)
        if not isinstance(expanded, dict):
            self._add((), "should be a mapping with `name`, `endpoints`, `agents` and `benchmarks`")
            self._raise_errors()
        try:
            model = document_model().model_validate(expanded)
        except ValidationError as error:
            self._add_flaws(error, value)
            self._raise_errors()
        objects = tuple(_objects(model, value))
        self._check_recipients(objects)
        self._check_references(expanded, value)
        self._raise_errors()
        return ProjectFile(name=getattr(model, "name"), objects=objects)  # noqa: B009 - a created model

    def _expand(self, value: Any, path: YamlPath, environment: Mapping[str, str]) -> Any:
        """The value with its variables; adds an error for each that is not set, and each literal secret."""
        if isinstance(value, dict):
            return {
                key: self._expand(item, (*path, key), environment) for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._expand(item, (*path, i), environment) for i, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        if not _VARIABLE.search(value) and _is_secret(path, value):
            self._add(path, _WRITTEN_OUT.format(field=_last_name(path)))
        try:
            return expand_variables(value, environment.get)
        except (UndefinedVariable, MalformedVariable) as error:
            self._add(
                path,
                f"{error}; set it in the environment"
                if isinstance(error, UndefinedVariable)
                else str(error),
            )
            return value

    def _add_flaws(self, error: ValidationError, document: Any) -> None:
        details = error.errors(include_url=False, include_input=False)
        unset = {position for position, _ in self.errors}
        for detail in details:
            if detail["type"] == "extra_forbidden":
                path = tuple(detail["loc"])
                known = field_names(path[:-1])
                close = suggest_names(str(path[-1]), known) or _suggest_longer(str(path[-1]), known)
                names = close or f" Known: {', '.join(known)}."
                self._add(path, f"{path[-1]!r} is not a known field.{names}", key=True)
        others = [detail for detail in details if detail["type"] != "extra_forbidden"]
        # With the text of the file, not its variables: a message must not show a secret.
        for flaw in describe_errors(others, document):
            position = self.document.position_of(flaw.path)
            # A variable without a value is no value of another form.
            if position not in unset or "is missing" in flaw.text:
                self._add(flaw.path, flaw.located_text())

    def _check_references(self, expanded: Mapping[str, Any], document: Any) -> None:
        """Add an error for each name of an agent or endpoint that the file does not have."""
        for path, section, name in _references(expanded):
            names = list(expanded.get(section) or {})
            if name not in names:
                # As the file writes it: a variable may be anything.
                written = document
                for step in path:
                    written = written[step]
                hint = suggest_names(name, names) or f" Add it under `{section}`."
                self._add(path, f"{written!r} is not one of the {section} of this file.{hint}")

    def _check_recipients(self, objects: Iterable[FileObject]) -> None:
        """Add an error for a second endpoint with the same recipient: it would be the same endpoint."""
        first: dict[tuple[str, str], str] = {}
        for item in objects:
            if item.key.kind is ObjectKind.ENDPOINT:
                name = first.setdefault(
                    (item.fields["channel"], item.fields["recipient"]), item.key.name
                )
                if name != item.key.name:
                    detail = f"has the same recipient as {name!r}; remove one of them"
                    self._add(("endpoints", item.key.name), detail)

    def _add(self, path: YamlPath, detail: str, *, key: bool = False) -> None:
        self.errors.append((self.document.position_of(path, key=key), detail))

    def _raise_errors(self) -> None:
        if not self.errors:
            return
        listed = sorted(dict.fromkeys(self.errors))
        raise InvalidProjectFile(
            f"{self.source} has {len(listed)} error{'s' if len(listed) > 1 else ''}",
            errors=[
                ErrorItem(pointer=f"{self.source}:{line}:{column}", detail=detail)
                for (line, column), detail in listed[:MAX_SHOWN_ERRORS]
            ],
        )


_WRITTEN_OUT: Final = "{field} is a secret and must not stand in a file; put it into a variable of the environment, and write ${{NAME}}"


def _is_secret(path: YamlPath, text: str) -> bool:
    name = _last_name(path)
    return name in _SECRET_FIELDS or (name in _RECIPIENT_FIELDS and "://" in text)


def _last_name(path: YamlPath) -> str:
    names = [step for step in path if isinstance(step, str)]
    # The API accepts both spellings of the fields of a part.
    first, *words = names[-1].split("_") if names else ("",)
    return first + "".join(map(str.capitalize, words))


def _suggest_longer(name: str, known: list[str]) -> str:
    """The fields whose names begin with a name that is too short, such as `cron`."""
    longer = [field for field in known if field.casefold().startswith(name.casefold()[:4])]
    return f" Did you mean {' or '.join(longer)}?" if longer else ""


def _objects(model: BaseModel, document: Mapping[str, Any]) -> Iterator[FileObject]:
    for section, kind in SECTIONS.items():
        for name, entry in getattr(model, section).items():
            raw = document[section][name] or {}
            yield _file_object(ObjectKey(kind, name), entry, raw)
            if kind is ObjectKind.BENCHMARK:
                yield from _parts(name, entry, raw)


def _parts(benchmark: str, entry: Any, raw: Mapping[str, Any]) -> Iterator[FileObject]:
    for section, kind in BENCHMARK_SECTIONS.items():
        for name, part in getattr(entry, section).items():
            yield _file_object(ObjectKey(kind, name, benchmark), part, raw[section][name] or {})


def _file_object(key: ObjectKey, entry: BaseModel, raw: Mapping[str, Any]) -> FileObject:
    sections = BENCHMARK_SECTIONS if key.kind is ObjectKind.BENCHMARK else {}
    names = [
        (name, field.alias or name)
        for name, field in type(entry).model_fields.items()
        if name in entry.model_fields_set and name not in sections
    ]
    values = entry.model_dump(by_alias=True)
    return FileObject(
        key=key,
        fields={alias: to_jsonable_python(_reveal(values[alias])) for _, alias in names},
        variables={
            alias: raw[alias] if isinstance(raw[alias], str) else "${…}"
            for _, alias in names
            if _has_variable(raw[alias])
        },
    )


def _reveal(value: Any) -> Any:
    """The value with the texts of its secrets."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {key: _reveal(item) for key, item in value.items()}
    return [_reveal(item) for item in value] if isinstance(value, list | tuple) else value


def _has_variable(value: Any) -> bool:
    texts: list[str] = []

    def collect(text: str) -> str:
        texts.append(text)
        return text

    map_json_texts(value, collect)
    return any(map(_VARIABLE.search, texts))


def _references(document: Mapping[str, Any]) -> Iterator[tuple[YamlPath, str, str]]:
    """The path, section and name of each reference to an agent or endpoint."""
    for name, benchmark in (document.get("benchmarks") or {}).items():
        entry, path = benchmark or {}, ("benchmarks", name)
        for index, agent in enumerate(entry.get("agents") or ()):
            yield (*path, "agents", index), "agents", agent
        for section in ("rules", "schedules"):
            for key, part in (entry.get(section) or {}).items():
                if part.get("agent") is not None:
                    yield (*path, section, key, "agent"), "agents", part["agent"]
                for index, endpoint in enumerate(part.get("endpoints") or ()):
                    yield (*path, section, key, "endpoints", index), "endpoints", endpoint
