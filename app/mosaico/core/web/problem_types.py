"""Documentation of error codes: `/problems/<code>`; `docs/errors.md` has all of them."""

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
        for code, error in errors_by_code().items()
    }


def errors_by_code() -> dict[str, type[AppError]]:
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
