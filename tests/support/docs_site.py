"""Hooks of `properdocs.yml`: the site of the documentation from the pages as the forge shows them.

The navigation is the map of `docs/README.md`, so a page that is not on the map is a warning, and `--strict` refuses
it. Anchors are those of the forge. A file outside of `docs/` that a page links to is copied into the site.
"""

import re
from pathlib import Path
from typing import Final, TypeAlias

from properdocs.config.defaults import ProperDocsConfig
from properdocs.structure.files import File, Files
from properdocs.structure.pages import Page

Navigation: TypeAlias = list[dict[str, str | list[dict[str, str]]]]

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
MAP: Final = "README.md"
# The folder of the site with files from outside of `docs/`.
SOURCES: Final = "sources"
_LINK_OF_MAP: Final = re.compile(r"^- \[(.+?)\]\(([^)]+\.md)\)", re.MULTILINE)
_LINK_TO_SOURCE: Final = re.compile(r"\]\(((?:\.\./)+[^)#]+)")


def anchor(heading: str, separator: str) -> str:
    """The anchor of a heading on the forge: letters, digits, hyphens and underscores; spaces are hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def navigation(text: str) -> Navigation:
    """The sections of the map with their pages, in its order."""
    entries: Navigation = [{"Map": MAP}]
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, lines = section.partition("\n")
        entries.append({title: [{name: page} for name, page in _LINK_OF_MAP.findall(lines)]})
    return entries


def source_path(page: str, link: str) -> str | None:
    """The path of a linked file below the root, or `None` if it is a page of the site."""
    path = (DOCS / page).parent.joinpath(link).resolve()
    return None if path.is_relative_to(DOCS) else path.relative_to(ROOT).as_posix()


def source_name(path: str) -> str:
    """The name of a copied file in the site; names that begin with a dot are not served by every server."""
    return f"{SOURCES}/{path.lstrip('.')}.txt"


def on_config(config: ProperDocsConfig) -> None:
    config.nav = navigation((DOCS / MAP).read_text("utf-8"))


def on_files(files: Files, *, config: ProperDocsConfig) -> None:
    for page in list(files.documentation_pages()):
        for link in _LINK_TO_SOURCE.findall(page.content_string):
            path = source_path(page.src_uri, link)
            if (
                path
                and (ROOT / path).is_file()
                and files.get_file_from_path(source_name(path)) is None
            ):
                content = (ROOT / path).read_text("utf-8")
                files.append(File.generated(config, source_name(path), content=content))


def on_page_markdown(markdown: str, *, page: Page, config: ProperDocsConfig, files: Files) -> str:
    """The page with links to the copies of source files."""
    uri = page.file.src_uri

    def copied(match: re.Match[str]) -> str:
        path = source_path(uri, match[1])
        return f"]({'../' * uri.count('/')}{source_name(path)}" if path else match[0]

    return _LINK_TO_SOURCE.sub(copied, markdown)
