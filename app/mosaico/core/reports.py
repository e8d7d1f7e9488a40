"""The formats of reports, for the service and both harnesses: an HTML page that loads nothing and has no script, Markdown, JUnit XML for CI servers, and CSV. Foreign text is escaped."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Final, Literal
from xml.etree import ElementTree as ET

from mosaico.core.text import html_text, show_direction_controls, xml_text

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8885; --good: #1a7f37; --bad: #cf222e; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; display: block; overflow-x: auto }
th, td { text-align: left; padding: .25rem .75rem; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: break-word }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .4rem 0; padding: .4rem .8rem }
summary { cursor: pointer }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: .5rem; margin: .3rem 0 }
.who { font-weight: 600; margin: .8rem 0 0 }
.PASS { color: var(--good) } .FAIL, .ERROR { color: var(--bad) }
"""


def html_page(title: str, body: Iterable[str], *, style: str = "") -> str:
    """A self-contained HTML page: it loads no other resource and runs no script.

    `style` holds further style rules; it is not escaped.
    """
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            (
                '<meta http-equiv="Content-Security-Policy"'
                " content=\"default-src 'none'; style-src 'unsafe-inline'\">"
            ),
            f"<title>{html_text(title)}</title>",
            f"<style>{_STYLE}{style}</style></head><body>",
            f"<h1>{html_text(title)}</h1>",
            *body,
            "</body></html>\n",
        ]
    )


def html_table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """An HTML table of plain texts; without titles it has no header row."""
    head = "".join(f"<th>{html_text(title)}</th>" for title in titles)
    body = "\n".join(
        f"<tr>{''.join(f'<td>{html_text(value)}</td>' for value in row)}</tr>" for row in rows
    )
    return (
        f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
    )


_MARKUP = re.compile(r"[\\`*_\[\]<>|#~@&]")


def markdown_text(text: str) -> str:
    """A text as one line without markup, safe anywhere in Markdown, also in a table cell."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(show_direction_controls(text).split()))


def markdown_table(titles: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """The lines of a table whose cells are Markdown already."""
    return [_row(titles), f"|{'---|' * len(titles)}", *map(_row, rows)]


def folded_lines(summary: str, lines: Sequence[str]) -> list[str]:
    """Lines that a reader unfolds; nothing without any."""
    if not lines:
        return []
    return ["", f"<details><summary>{summary}</summary>", "", *lines, "", "</details>"]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


JUnitProblem = Literal["failure", "error", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JUnitCase:
    """A test case; `problem` is the element that says why it did not pass, None for a passed one."""

    classname: str
    name: str
    problem: JUnitProblem | None = None
    message: str = ""
    type: str | None = None
    text: str | None = None
    duration_s: float | None = None


def junit_xml(name: str, cases: Sequence[JUnitCase], *, timestamp: str | None = None) -> str:
    """A document of one test suite; with durations, its time is their sum."""
    problems = [case.problem for case in cases]
    durations = [case.duration_s for case in cases if case.duration_s is not None]
    suite = _element(
        "testsuite",
        name=name,
        timestamp=timestamp,
        tests=str(len(cases)),
        failures=str(problems.count("failure")),
        errors=str(problems.count("error")),
        skipped=str(problems.count("skipped")),
        time=f"{sum(durations):.3f}" if durations else None,
    )
    suite.extend(map(_case_element, cases))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _case_element(case: JUnitCase) -> ET.Element:
    time = None if case.duration_s is None else f"{case.duration_s:.3f}"
    element = _element("testcase", classname=case.classname, name=case.name, time=time)
    if case.problem is not None:
        problem = _element(case.problem, message=case.message, type=case.type)
        problem.text = None if case.text is None else xml_text(case.text)
        element.append(problem)
    return element


def _element(tag: str, **attributes: str | None) -> ET.Element:
    present = {name: xml_text(text) for name, text in attributes.items() if text is not None}
    return ET.Element(tag, present)


_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A header and rows; None is an empty cell."""
    return csv_lines([columns, *rows])


def csv_lines(rows: Iterable[Iterable[object]]) -> str:
    """Rows without a header."""
    text = io.StringIO()
    write_csv(text, rows)
    return text.getvalue()


def write_csv(file: IO[str], rows: Iterable[Iterable[object]]) -> None:
    """Write rows as they come."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows(map(escape_cell, row) for row in rows)


def escape_cell(cell: object) -> object:
    """The cell; an apostrophe precedes text that a spreadsheet would run as a formula, and text that has such an
    apostrophe itself, so that `unescape_cell` gives back every text.
    """
    if not isinstance(cell, str):
        return cell
    text = cell.lstrip("'")
    is_formula = text.lstrip(" ").startswith(_FORMULA_STARTS) and text != "-"
    return f"'{cell}" if is_formula else cell


def unescape_cell(cell: str) -> str:
    """The text of a cell that `escape_cell` may have changed."""
    text = cell.removeprefix("'")
    return text if escape_cell(text) == cell else cell
