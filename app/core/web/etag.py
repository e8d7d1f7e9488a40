"""Which version of a thing a client has seen: ETag, and what If-Match and If-None-Match ask.

A tag is `"<revision>-<digest>"`. An edit compares the revision alone: what people change. A reader
compares all of it: also what changes by itself, such as the next start of a schedule.

Source: RFC 9110, sections 8.8.3 and 13.1; RFC 6585, section 3.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from fastapi import Depends, FastAPI, Header, Request, Response

from app.core.errors import AppError, Conflict
from app.core.web.deps import resources
from app.core.web.response_headers import add_header

DIGEST_BYTES = 6
REQUIRED = "require_if_match"  # the option, set to anything

_TAG = re.compile(r'(W/)?"([^"]*)"')

IfMatchHeader = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=1024,
        description="The `ETag` that was read; the edit is refused when another one came between."
        " `*` or nothing: edit whatever is there.",
    ),
]
IfNoneMatchHeader = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        max_length=1024,
        description="The `ETag` that is known; 304 without a body while nothing has changed.",
    ),
]


@runtime_checkable
class Revised(Protocol):
    """What is shown of something that has revisions."""

    @property
    def revision(self) -> int: ...

    def model_dump_json(self) -> str: ...


V = TypeVar("V", bound=Revised)


class _Sent(NamedTuple):
    weak: bool
    text: str


class PreconditionFailed(Conflict):
    """It has changed since you read it; read it again, and send the new ETag as If-Match."""

    code = "precondition-failed"
    status = 412


class PreconditionRequired(AppError):
    """An edit must name what it edits here; read it first, and send its ETag as If-Match."""

    code = "precondition-required"
    status = 428
    exit_code = 65


class NotModified(Exception):
    """What the client knows is still true."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        super().__init__(tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """Gives the answer its ETag: `return tagged(view)`."""

    request: Request
    known: str | None = None

    def __call__(self, view: V) -> V:
        """The view itself. Raises `NotModified` when the client has it already."""
        tag = etag_of(view)
        if self.known is not None and _is_known(self.known, tag):
            raise NotModified(tag)
        add_header(self.request.scope, "ETag", tag)
        return view


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Refuses an edit of what has changed meanwhile, and gives the answer its ETag.

    with res.db.begin() as session:
        match(queries.get_agent(session, agent_id, for_update=True).revision)
        return match.tagged(view(service.change_agent(…)))
    """

    wanted: str | None
    required: bool
    tagged: Tagged

    def __call__(self, revision: int) -> None:
        """Raises `PreconditionFailed`, `PreconditionRequired`; the row must be locked already."""
        if self.wanted is None:
            if self.required:
                raise PreconditionRequired
        elif not _matches(self.wanted, revision):
            raise PreconditionFailed


def etag_of(view: Revised) -> str:
    """The tag of what is shown, quotes included."""
    digest = hashlib.sha256(view.model_dump_json().encode()).digest()[:DIGEST_BYTES]
    return f'"{view.revision}-{digest.hex()}"'


def find_etag(view: object) -> str | None:
    """The tag of what is shown; None when it has no revisions."""
    return etag_of(view) if isinstance(view, Revised) else None


def install(app: FastAPI) -> None:
    """Answer 304 where a client knows already what it asked for."""
    app.add_exception_handler(NotModified, _on_not_modified)


def document(operation: dict[str, Any], problem: Any) -> None:
    """Describe the answers of an operation that takes conditions; `problem(status, text)`."""
    headers = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "header"}
    answers = operation["responses"]
    if "If-None-Match" in headers:
        answers["304"] = {"description": "Not Modified: what you have is still true"}
    if "If-Match" in headers:
        answers["412"] = problem(412, "it has changed since it was read")
        answers["428"] = problem(428, "this service wants If-Match with every edit")


async def _tagged(request: Request, if_none_match: IfNoneMatchHeader = None) -> Tagged:
    return Tagged(request=request, known=if_none_match)


async def _match(request: Request, if_match: IfMatchHeader = None) -> Match:
    required = bool(resources(request).options.get(REQUIRED))
    return Match(wanted=if_match, required=required, tagged=Tagged(request=request))


IfNoneMatch = Annotated[Tagged, Depends(_tagged)]
IfMatch = Annotated[Match, Depends(_match)]


def _matches(wanted: str, revision: int) -> bool:
    return wanted.strip() == "*" or any(
        not sent.weak and sent.text.partition("-")[0] == str(revision) for sent in _tags(wanted)
    )


def _is_known(known: str, tag: str) -> bool:
    return known.strip() == "*" or any(f'"{sent.text}"' == tag for sent in _tags(known))


def _tags(header: str) -> Iterator[_Sent]:
    return (_Sent(bool(found[1]), found[2]) for found in _TAG.finditer(header))


def _on_not_modified(_request: Request, error: Exception) -> Response:
    assert isinstance(error, NotModified)
    return Response(status_code=304, headers={"ETag": error.tag})
