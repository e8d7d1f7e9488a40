"""Tests that need libfaketime are skipped without it, and fail where it is required."""

from pathlib import Path

import pytest

from tests.support import faketime
from tests.support.faketime import MISSING, REQUIRED, require_library


@pytest.fixture
def _missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faketime, "find_library", lambda: None)


@pytest.mark.usefixtures("_missing_library")
def test_require_library__missing_one_skips_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REQUIRED, raising=False)

    with pytest.raises(pytest.skip.Exception, match="apt-get install faketime"):
        require_library()


@pytest.mark.usefixtures("_missing_library")
def test_require_library__missing_one_fails_the_test_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRED, "1")

    with pytest.raises(pytest.fail.Exception, match=MISSING):
        require_library()


def test_ci__installs_and_requires_the_library() -> None:
    script = (Path(__file__).parents[3] / ".ci/run").read_text()

    assert f"export {REQUIRED}=1" in script
    assert "faketime;" in script


def test_makefile__says_so_before_the_campaigns() -> None:
    makefile = (Path(__file__).parents[3] / "Makefile").read_text()

    recipe = makefile.partition("\nprove:")[2].partition("\n\n")[0]
    assert "faketime" in recipe.partition("\n")[0], "the help names the package"
    assert "-m tests.support.faketime" in recipe
    # Without it pytest counts the skipped tests and does not say why.
    assert "-rs" in recipe.split()
