"""Renders pages: one Jinja2 environment, and the frame around every page.

A page gets values that are ready to show. The environment escapes every text, refuses unknown names,
and shows characters that change the reading direction.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from mosaico.core.keyset import DEFAULT_LIMIT
from mosaico.core.resources import Resources
from mosaico.core.symbols import VERDICTS, symbol_of
from mosaico.core.text import format_duration, format_number, replace_unstorable, shorten
from mosaico.core.web.form_words import FormWords, with_label, words_of
from mosaico.core.web.page_paths import NAVIGATION, NavItem
from mosaico.core.web.page_text import (
    break_at_underscores,
    date_element,
    exact_element,
    find_zone,
    format_instant,
    sentence_element,
    show_text,
    shrink_long_title,
    time_element,
)
from mosaico.core.web.static_files import STYLE_SHEETS, asset_url, read_style_sheets

TEMPLATES: Final = Path(__file__).parent / "templates"
ZONE_COOKIE: Final = "mosaico_zone"
DEFAULT_ZONE: Final = ZoneInfo("UTC")
PRIVATE: Final = "private, no-cache"
PAGE_LAYOUT: Final = "base.html"
FILE_LAYOUT: Final = "file.html"
# Of a name in a list: its own page has the whole of it.
MAX_LISTED_CHARS: Final = 60
# The label of a field that errors name on pages without its form.
WORDS: Final = FormWords({"evaluates": "Agents"}, {})
NO_PARTS: Final[Mapping[str, str]] = MappingProxyType({})
# How somebody judged an alert: the words of the API, and those of the pages.
VERDICT_WORDS: Final = {"true": "it was real", "noise": "a false alarm"}


class ComputedRequest(NamedTuple):
    """A POST of the API, by its path and its body, that computes something and changes nothing."""

    path: str
    body: Mapping[str, Any]


class Crumb(NamedTuple):
    """A step of the path above the title of a page."""

    text: str
    url: str


# Sets of the application that only its entry point knows.
InboxCount = Callable[[Resources], int]


@cache
def environment() -> Environment:
    """The environment of all pages."""
    env = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=show_text,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    env.globals |= {
        "asset": asset_url,
        "style_sheets": STYLE_SHEETS,
        "url": build_url,
        "verdict_words": VERDICT_WORDS,
        "verdict_symbols": VERDICTS,
    }
    env.filters |= {
        "time": _time_filter,
        "instant": _instant_filter,
        "exact": _exact_filter,
        "utc": lambda at: exact_element(at, DEFAULT_ZONE),
        "local": _local_filter,
        "sentence": _sentence_filter,
        "duration": format_duration,
        "number": format_number,
        "grouped": lambda number: f"{number:,}",
        "breakable": break_at_underscores,
        "heading": shrink_long_title,
        "brief": lambda name: shorten(name, MAX_LISTED_CHARS),
        "plain": WORDS.translate,
        "symbol": symbol_of,
        "with_label": with_label,
        "words": lambda name: words_of(re.sub(r"[._:/]", " ", name).strip()),
    }
    return env


def render_page(
    request: Request,
    template: str,
    *,
    title: str,
    nav: str = "",
    api: str | None = None,
    api_parts: Mapping[str, str] = NO_PARTS,
    api_question: ComputedRequest | None = None,
    has_secrets: bool = False,
    status: int = HTTPStatus.OK,
    **context: Any,
) -> Response:
    """A page as a response.

    `nav` is the address of its entry in the navigation. `api` is the path below `/api/v1` that returns
    the same data as JSON; `api_parts` are paths of further data on the page, by what they have, and
    `api_question` is the POST that returns what the page computes. A page with secrets is never stored; any
    other page has an ETag.
    Templates get the query of the page as `params`.
    """
    html = (
        environment()
        .get_template(template)
        .render(
            frame=_frame(
                request,
                title=title,
                nav=nav,
                api=api,
                api_parts=api_parts,
                api_question=api_question,
                status=status,
            ),
            **{"params": sent_parameters(request), "layout": PAGE_LAYOUT, **context},
        )
    )
    if has_secrets:
        return HTMLResponse(html, status, headers={"Cache-Control": "no-store"})
    content = html.encode()
    # Weak, because a proxy that compresses the page changes its bytes.
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"Cache-Control": PRIVATE, "ETag": tag, "Vary": "Cookie"}
    if status == HTTPStatus.OK and request.headers.get("if-none-match") == tag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return HTMLResponse(content, status, headers=headers)


def render_file(
    request: Request, template: str, *, title: str, address: str, **context: Any
) -> str:
    """A page as one file, as a reader sees it: without navigation, buttons and script, its style sheet
    within. `address` is that of the page, to which the file links.
    """
    frame = _frame(request, title=title, nav="", api=None, status=HTTPStatus.OK)
    return (
        environment()
        .get_template(template)
        .render(
            frame=frame._replace(role="read"),
            layout=FILE_LAYOUT,
            base=public_url(request),
            address=address,
            style=Markup(read_style_sheets()),  # noqa: S704 - our own style sheet
            **context,
        )
    )


def see_other(address: str) -> RedirectResponse:
    """The answer to a sent form: the browser shows the page at `address`."""
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)


def build_url(path: str, parameters: Mapping[str, Any] | None = None, **changes: Any) -> str:
    """A path with query parameters; `changes` replace parameters, and empty ones are left out."""
    merged = {**(parameters or {}), **changes}
    query = urlencode({k: v for k, v in merged.items() if v not in (None, "", [])}, doseq=True)
    return f"{path}?{query}" if query else path


def sent_parameters(request: Request) -> dict[str, str | list[str]]:
    """The query of a page: the value of a parameter, or the list of its values."""
    query = request.query_params
    return {name: values if len(values := query.getlist(name)) > 1 else values[0] for name in query}


def list_in_api(
    request: Request,
    path: str,
    names: Mapping[str, str] | None = None,
    *,
    limit: int | None = None,
    **fixed: Any,
) -> str:
    """The path in the API of the rows that a list page shows: the page's own query, its cursor included.

    `names` gives the API's name of each parameter of the page; `fixed` are the API's own parameters.
    """
    parameters = {
        api: request.query_params.get(page, "").strip() for page, api in (names or {}).items()
    }
    return build_url(
        path,
        {**parameters, **fixed},
        cursor=request.query_params.get("cursor"),
        limit=limit or DEFAULT_LIMIT,
    )


def newest_time(created_at: datetime | None) -> str:
    """The time of the newest row of a list, by which its page knows newer ones; every row is newer than an empty list.

    Without its zone, UTC: the clock of a browser has no microseconds, so the page compares texts.
    """
    return (
        (created_at or datetime.fromtimestamp(0, UTC))
        .astimezone(UTC)
        .replace(tzinfo=None)
        .isoformat()
    )


def public_url(request: Request) -> str:
    """The base of the service's addresses, without a slash at the end: that of the request, unless one is set."""
    resources: Resources = request.app.state.resources
    return (resources.options.get("public_url") or str(request.base_url)).rstrip("/")


def reader_zone(request: Request) -> ZoneInfo:
    """The time zone in which the reader sees times."""
    return find_zone(request.cookies.get(ZONE_COOKIE, "")) or DEFAULT_ZONE


class _Frame(NamedTuple):
    """The values that `base.html` shows around a page."""

    title: str
    nav: str
    navigation: tuple[NavItem, ...]
    inbox: int
    zone: ZoneInfo
    now: datetime
    address: str
    role: str | None
    version: str
    api: str | None
    api_parts: Mapping[str, str]
    is_copied: bool
    curl: str | None


def _frame(
    request: Request,
    *,
    title: str,
    nav: str,
    api: str | None,
    api_parts: Mapping[str, str] = NO_PARTS,
    api_question: ComputedRequest | None = None,
    status: int,
) -> _Frame:
    resources: Resources = request.app.state.resources
    caller = getattr(request.state, "caller", None)
    count_inbox: InboxCount | None = getattr(request.app.state, "count_inbox", None)
    is_admin = caller is not None and caller.role == "admin"
    # The page of an outage must not ask the database again.
    counts = caller and count_inbox and status < HTTPStatus.INTERNAL_SERVER_ERROR
    query = f"?{request.url.query}" if request.url.query else ""
    base = f"{public_url(request)}/api/v1"
    return _Frame(
        title=title,
        nav=nav,
        navigation=tuple(item for item in NAVIGATION if is_admin or not item.is_admin),
        inbox=count_inbox(resources) if counts and count_inbox else 0,
        zone=reader_zone(request),
        now=resources.clock(),
        # The link to the time zone has it as a parameter, which NUL in a refused path would spoil.
        address=replace_unstorable(request.url.path) + query,
        role=caller.role if caller else None,
        version=_version(),
        api=f"/api/v1{api}" if api else None,
        api_parts={name: f"/api/v1{path}" for name, path in api_parts.items()},
        # A question is not asked with GET, as the addresses are.
        is_copied=api_question is None,
        curl=_curl(base, (api, *api_parts.values()), api_question) if api else None,
    )


@cache
def _version() -> str:
    return version("mosaico")


def _curl(base: str, paths: Iterable[str], question: ComputedRequest | None) -> str:
    """A command for all data of a page: it prints a document for each address."""
    command = 'curl -H "Authorization: Bearer $MOSAICO_API_KEY"'
    reads = f"{command} {shlex.join(f'{base}{path}' for path in paths)}"
    if question is None:
        return reads
    body = shlex.quote(json.dumps(question.body))
    return f"{reads} && {command} --json {body} {shlex.quote(base + question.path)}"


@pass_context
def _time_filter(context: Context, at: datetime | None) -> str | Markup:
    frame: _Frame = context["frame"]
    # A file is read days later, when "2 h ago" is no longer true.
    if context.get("layout") == FILE_LAYOUT and at is not None:
        return date_element(at, frame.zone, frame.now)
    return time_element(at, frame.zone, frame.now)


@pass_context
def _sentence_filter(context: Context, sentence: str) -> Markup:
    frame: _Frame = context["frame"]
    return sentence_element(sentence, frame.zone, frame.now)


@pass_context
def _instant_filter(context: Context, at: datetime) -> str:
    frame: _Frame = context["frame"]
    return format_instant(at, frame.zone, frame.now)


@pass_context
def _exact_filter(context: Context, at: datetime) -> Markup:
    frame: _Frame = context["frame"]
    return exact_element(at, frame.zone)


@pass_context
def _local_filter(context: Context, at: datetime) -> Markup:
    """An instant as a date and time in the reader's zone, also within a day."""
    frame: _Frame = context["frame"]
    return date_element(at, frame.zone, frame.now)
