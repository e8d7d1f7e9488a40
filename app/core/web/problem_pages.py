"""What each error code means, for people: as `/problems/<code>` and as `docs/errors.md`.

`python -m app.core.web.problem_pages` prints the page for the documentation.
"""

import importlib
import inspect
import pkgutil
import sys

from fastapi import APIRouter

from app.core.errors import AppError, NotFound
from app.core.problems import PROBLEMS, title_of
from app.core.registry import near_matches
from app.core.schemas import WireModel

router = APIRouter(tags=["service"], responses={404: PROBLEMS[404]})


class ProblemKind(WireModel):
    """One kind of problem; `type` is what problem documents carry."""

    type: str
    title: str
    status: int
    description: str


@router.get("/problems/{code}")
def describe_problem(code: str) -> ProblemKind:
    """What a problem type means and what to do about it."""
    kinds = problem_kinds()
    if code not in kinds:
        raise NotFound(
            f"no problem has this code.{near_matches(code[:64], list(kinds))}"
            " docs/errors.md lists them all."
        )
    return kinds[code]


def problem_kinds() -> dict[str, ProblemKind]:
    """Every kind of error of the modules that are loaded, by code."""
    return {
        code: ProblemKind(
            type=f"/problems/{code}",
            title=title_of(code),
            status=error.status,
            description=_description(error),
        )
        for code, error in _by_code().items()
    }


def errors_page() -> str:
    """The text of `docs/errors.md`: every error of the program."""
    _import_everything()
    rows = [
        f"| `{code}` | {error.status} | {error.exit_code} | {_description(error)} |"
        for code, error in _by_code().items()
    ]
    return _HEAD + "\n".join(rows) + "\n"


_HEAD = """# Errors

Over HTTP every error is a problem document (RFC 9457, `application/problem+json`). `type` is
`/problems/<code>`, `detail` says what is wrong and what to do, `errors` names each wrong field by
a JSON pointer (or the name of a parameter), `instance` is the request id, which the answer also
carries as `X-Request-Id` and the log in every line. On a terminal the same error is one line on
standard error and an exit code.

This page is generated: `python -m app.core.web.problem_pages > docs/errors.md`.

| Code | HTTP | Exit | Meaning and remedy |
|---|---|---|---|
"""


def _by_code() -> dict[str, type[AppError]]:
    """One class per code, by status; of two with the same code the last by module name."""
    ordered = sorted(
        _kinds(AppError), key=lambda each: (each.status, each.code, each.__module__, each.__name__)
    )
    return {error.code: error for error in ordered}


def _kinds(root: type[AppError]) -> set[type[AppError]]:
    found = {root} if root is not AppError else set()
    for kind in root.__subclasses__():
        if kind.__module__.startswith("app."):
            found |= _kinds(kind)
    return found


def _description(error: type[AppError]) -> str:
    first_paragraph = inspect.cleandoc(error.__doc__ or "").partition("\n\n")[0]
    return " ".join(first_paragraph.split())


def _import_everything() -> None:
    for module in pkgutil.walk_packages(importlib.import_module("app").__path__, prefix="app."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


if __name__ == "__main__":
    sys.stdout.write(errors_page())
