"""The pages for people who join name folders, files, modules and an import order that exist."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "app" / "mosaico"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
# Without the list of changes, which tells of files that are gone.
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
FOLDERS = ("app", "ci", "migrations", "tests", "benchmarks", "demo", "docs")
NAMED_PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[^\s`]*)`")
FILE_NAME = re.compile(r"`([\w-]+\.(?:py|html|css|toml))`")
MODULE = re.compile(r"python -m ((?:mosaico|demo|benchmarks|tests)[\w.]*)")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def is_there(name: str) -> bool:
    """Whether a named path exists; `*` and `<name>` stand for any name."""
    pattern = re.sub(r"<\w+>", "*", re.split("::|#", name)[0].rstrip("/"))
    return any(ROOT.glob(pattern))


def wrong_names(page: Path) -> list[str]:
    """The paths, modules and links of a page that lead nowhere."""
    text = page.read_text(encoding="utf-8")
    modules = [
        re.sub(r"^mosaico", "app/mosaico", name.rstrip(".").replace(".", "/"))
        for name in MODULE.findall(text)
    ]
    wrong = [name for name in NAMED_PATH.findall(text) if not is_there(name)]
    wrong += [name for name in modules if not (is_there(name) or is_there(f"{name}.py"))]
    return wrong + [link for link in LINK.findall(text) if not (page.parent / link).exists()]


def test_pages__name_only_paths_modules_and_pages_that_exist() -> None:
    wrong = {str(page.relative_to(ROOT)): wrong_names(page) for page in PAGES}
    assert {page: names for page, names in wrong.items() if names} == {}


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_page__file_name_without_its_folder_exists(page: str) -> None:
    names = FILE_NAME.findall((ROOT / page).read_text(encoding="utf-8"))
    existing = {path.name for folder in ("", *FOLDERS) for path in (ROOT / folder).glob("*.*")}
    existing |= {path.name for path in APP.rglob("*.*")}
    assert set(names) <= existing


def test_contributing__names_commands_of_the_makefile() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = re.findall(r"`make (\w+)", (ROOT / "CONTRIBUTING.md").read_text())
    assert commands
    assert set(commands) <= targets


def test_architecture_page__layout_names_every_folder_of_the_app() -> None:
    layout = PAGE.split("```")[1]
    folders = {path.name for path in APP.iterdir() if (path / "__init__.py").exists()}
    assert {name for name in folders if f"{name}/" not in layout} == set()


def test_architecture_page__import_order_is_that_of_the_checked_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["id"] == "layers"]
    order = PAGE.split("## Import order")[1].split("\n\n")[2].replace("`", "").split("→")
    documented = [sorted(re.findall(r"\w+", layer)) for layer in order]
    assert documented == [sorted(re.findall(r"\w+", layer)) for layer in layers]
