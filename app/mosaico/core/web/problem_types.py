"""Documentation of error codes: `/problems/<code>` and `docs/errors.md`.

`python -m mosaico.core.web.problem_types` prints the page for the documentation.
"""

import importlib
import pkgutil
import sys

from mosaico.core.errors import AppError, NotFound, default_detail
from mosaico.core.problem_documents import PROBLEMS, problem_title
from mosaico.core.registry import suggest_names
from mosaico.core.schemas import WireModel
from mosaico.core.web.routes import Router

router = Router(tags=["service"], responses={404: PROBLEMS[404]})


class ProblemKind(WireModel):
    """One kind of problem; `type` is that of its problem documents."""

    type: str
    title: str
    status: int
    description: str


@router.get("/problems/{code}")
def describe_problem(code: str) -> ProblemKind:
    """Describe a problem type and its remedy."""
    kinds = list_problem_kinds()
    if code not in kinds:
        raise NotFound(
            f"no problem type has this code.{suggest_names(code[:64], list(kinds))}"
            " docs/errors.md lists all of them."
        )
    return kinds[code]


def list_problem_kinds() -> dict[str, ProblemKind]:
    """Every error class of the loaded modules, by code."""
    return {
        code: ProblemKind(
            type=f"/problems/{code}",
            title=problem_title(code),
            status=error.status,
            description=default_detail(error),
        )
        for code, error in _errors_by_code().items()
    }


def render_errors_page() -> str:
    """The text of `docs/errors.md`: every error of the program."""
    _import_everything()
    rows = [
        f"| `{code}` | {error.status} | {error.exit_code} | {default_detail(error)} |"
        for code, error in _errors_by_code().items()
    ]
    return _PAGE_HEAD + "\n".join(rows) + "\n"


_PAGE_HEAD = """# Errors

This page lists every error of the API and the command line, with its remedy.

Over HTTP an error is a problem document (RFC 9457, `application/problem+json`). On a terminal the
same error is one line on standard error and an exit code.

| Field | Content |
|---|---|
| `type` | `/problems/<code>` |
| `status` | the HTTP status |
| `detail` | the error and its remedy |
| `errors` | for each invalid field, a JSON pointer or the name of the parameter, and the problem |
| `instance` | the request ID; it is also in the response header `X-Request-Id` and in every log line |

A run that fails has the code of its error as `errorCode`, in capital letters: `too-large` is `TOO_LARGE` there.

This page is generated: `python -m mosaico.core.web.problem_types > docs/errors.md`.

| Code | HTTP | Exit | Meaning and remedy |
|---|---|---|---|
"""


def _errors_by_code() -> dict[str, type[AppError]]:
    """One class per code, ordered by status; the last by module name when two share a code."""
    ordered = sorted(
        _subclasses(AppError),
        key=lambda error: (error.status, error.code, error.__module__, error.__name__),
    )
    return {error.code: error for error in ordered}


def _subclasses(root: type[AppError]) -> set[type[AppError]]:
    classes = {root} if root is not AppError else set()
    for kind in root.__subclasses__():
        if kind.__module__.startswith("mosaico."):
            classes |= _subclasses(kind)
    return classes


def _import_everything() -> None:
    for module in pkgutil.walk_packages(
        importlib.import_module("mosaico").__path__, prefix="mosaico."
    ):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


if __name__ == "__main__":
    sys.stdout.write(render_errors_page())
