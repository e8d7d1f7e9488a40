"""Every code that an error has or a failed run stores is described in docs/errors.md."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaico.core.web.problem_types import list_problem_kinds
from mosaico.jobs.deaths import Poison
from mosaico.jobs.handlers import describe_error
from tests.support.generated_tables import import_every_module

ROOT = Path(__file__).parents[2]

# It loads every module, and with them the SDKs of models.
pytestmark = pytest.mark.xdist_group("sdks of models")


def constants(folder: str) -> Iterator[tuple[str, str]]:
    """The constant codes of errors and failed runs in our sources, with their places."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        source = file.read_text()
        if "code=" not in source and "fail_run" not in source:
            continue  # to parse all modules takes seconds
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call):
                continue
            codes = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            if isinstance(node.func, ast.Name) and node.func.id == "fail_run":
                codes.append(node.args[2])
            for code in codes:
                if isinstance(code, ast.Constant) and isinstance(code.value, str):
                    yield code.value, f"{file.relative_to(ROOT)}:{code.lineno}"


def is_described(code: str) -> bool:
    """The page says how the code of an error is written in a run."""
    return bool({code, code.lower().replace("_", "-")} & list_problem_kinds().keys())


@pytest.fixture(scope="module", autouse=True)
def _every_module() -> None:
    import_every_module()


def test_error_codes__each_constant_in_the_sources_is_described() -> None:
    undescribed = [source_line for code, source_line in constants("app") if not is_described(code)]

    assert undescribed == [], "give each code a subclass of AppError, with its remedy"


def test_failed_jobs__each_reason_is_described() -> None:
    assert is_described(Poison.code)
    assert is_described(describe_error(ValueError("a defect"))["code"])
    assert not is_described("NO_SUCH_CODE")
