"""A report as one HTML page, and its tables; it contains no script and loads nothing."""

from collections.abc import Iterable
from typing import Final

from app.core.text import html_text

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
