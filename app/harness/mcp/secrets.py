"""`${NAME}` and `${NAME:-default}` in the configuration of a benchmark, and where values come from."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.core.errors import AppError
from app.harness.mcp.yaml_parser import MAX_BYTES, InvalidYaml, parse_yaml

SECRETS_FILE: Final = "bench-secrets.yaml"

_VARIABLE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}|\$\{[^}]*\}?")


class InvalidSecretsFile(AppError):
    """The file of secrets cannot be used; write it as `NAME: value`, one a line."""

    code = "bad-secrets-file"
    status = 422
    exit_code = 2


class UndefinedVariable(Exception):
    """A variable has no value and no default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The values of a secrets file; `looked` says where one was looked for."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    searched_paths: tuple[Path, ...] = ()

    def location(self) -> str:
        return " or ".join(map(str, self.searched_paths)) or SECRETS_FILE


def find_secrets(path: Path | None) -> Secrets:
    """The values of the file that was named, else of `config/bench-secrets.yaml`, else the user's.

    Raises: BadSecrets, also when a named file is missing. None of the others need be there.
    """
    if path is not None:
        if not path.exists():
            raise InvalidSecretsFile(f"{path} does not exist", hint="name a file that can be read")
        return read_secrets(path)
    default_paths = default_secrets_paths()
    existing_path = next((path for path in default_paths if path.exists()), None)
    return (
        Secrets(searched_paths=default_paths)
        if existing_path is None
        else read_secrets(existing_path)
    )


def default_secrets_paths() -> tuple[Path, ...]:
    """Where a file of secrets is looked for: in the project, then of the user."""
    import platformdirs

    return (
        Path("config") / SECRETS_FILE,
        Path(platformdirs.user_config_dir("mosaico")) / SECRETS_FILE,
    )


def read_secrets(path: Path) -> Secrets:
    """The values of a file. What stands in it is never part of an error. Raises BadSecrets."""
    try:
        with path.open("rb") as file:
            document = parse_yaml(file.read(MAX_BYTES + 1), texts_only=True)
    except OSError as error:
        raise InvalidSecretsFile(
            f"{path} cannot be read: {error.strerror}", hint="let this user read it"
        ) from None
    except InvalidYaml as bad:
        raise InvalidSecretsFile(
            f"{path}:{bad.position.line}:{bad.position.column}: this is not `NAME: value`",
            hint="write one `NAME: value` a line, and quote values with signs in them",
        ) from None
    values = {} if document.value in (None, "") else document.value
    if not isinstance(values, dict) or not all(isinstance(text, str) for text in values.values()):
        raise InvalidSecretsFile(f"{path} holds something else than `NAME: value`")
    return Secrets(values=values, searched_paths=(path,))


def expand_variables(text: str, find_value: Callable[[str], str | None]) -> str:
    """The text with its variables filled in once; `$${` stands for `${`.

    Raises: NoSuchVariable with what is missing or malformed.
    """

    def value_of(match: "re.Match[str]") -> str:
        name, has_default, default = match.group(1, 2, 3)
        if match.group() == "$${":
            return "${"
        if name is None:
            raise UndefinedVariable(f"{match.group()!r:.60} is not written as ${{NAME}}")
        value = find_value(name)
        if value is not None:
            return value
        if has_default:
            return str(default)
        raise UndefinedVariable(f"the variable {name} has no value")

    return _VARIABLE.sub(value_of, text)
