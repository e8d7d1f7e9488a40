"""The page about the architecture names folders, files and an import order that exist."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED_PATHS = sorted(set(re.findall(r"`((?:app|tests|benchmarks|docs)/[\w/]+(?:\.py)?)/?`", PAGE)))


@pytest.mark.parametrize("name", NAMED_PATHS)
def test_architecture_page__named_path_exists(name: str) -> None:
    assert (ROOT / name).exists()


def test_architecture_page__layout_names_every_folder_of_the_app() -> None:
    layout = PAGE.split("```")[1]
    folders = {path.name for path in (ROOT / "app").iterdir() if (path / "__init__.py").exists()}
    assert {name for name in folders if f"{name}/" not in layout} == set()


def test_architecture_page__import_order_is_that_of_the_checked_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["id"] == "layers"]
    order = PAGE.split("## Import order")[1].split("\n\n")[2].replace("`", "").split("→")
    documented = [sorted(re.findall(r"\w+", layer)) for layer in order]
    assert documented == [sorted(re.findall(r"\w+", layer)) for layer in layers]


def test_decisions__each_has_a_number_of_its_own_in_its_name_and_title() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    numbers = [record.name[:4] for record in records]
    assert len(set(numbers)) == len(numbers) > 0
    titles = [record.read_text(encoding="utf-8").splitlines()[0] for record in records]
    misnumbered = [
        record.name
        for record, number, title in zip(records, numbers, titles, strict=True)
        if number not in title
    ]
    assert misnumbered == []
