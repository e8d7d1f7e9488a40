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
from app.core.web.deps import get_resources
from app.core.web.response_headers import add_header

DIGEST_BYTES = 6
REQUIRE_IF_MATCH = "require_if_match"  # the option, set to anything

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
class HasRevision(Protocol):
    """What is shown of something that has revisions."""

    @property
    def revision(self) -> int: ...

    def model_dump_json(self) -> str: ...


V = TypeVar("V", bound=HasRevision)


class _EntityTag(NamedTuple):
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
class ETagCheck:
    """Gives the answer its ETag: `return tagged(view)`."""

    request: Request
    if_none_match: str | None = None

    def __call__(self, view: V) -> V:
        """The view itself. Raises `NotModified` when the client has it already."""
        tag = compute_etag(view)
        if self.if_none_match is not None and _contains_tag(self.if_none_match, tag):
            raise NotModified(tag)
        add_header(self.request.scope, "ETag", tag)
        return view


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionCheck:
    """Refuses an edit of what has changed meanwhile, and gives the answer its ETag.

    with res.db.begin() as session:
        match(queries.get_agent(session, agent_id, for_update=True).revision)
        return match.tagged(view(service.change_agent(…)))
    """

    if_match: str | None
    required: bool
    etag: ETagCheck

    def __call__(self, revision: int) -> None:
        """Raises `PreconditionFailed`, `PreconditionRequired`; the row must be locked already."""
        if self.if_match is None:
            if self.required:
                raise PreconditionRequired
        elif not _matches_revision(self.if_match, revision):
            raise PreconditionFailed


def compute_etag(view: HasRevision) -> str:
    """The tag of what is shown, quotes included."""
    digest = hashlib.sha256(view.model_dump_json().encode()).digest()[:DIGEST_BYTES]
    return f'"{view.revision}-{digest.hex()}"'


def find_etag(view: object) -> str | None:
    """The tag of what is shown; None when it has no revisions."""
    return compute_etag(view) if isinstance(view, HasRevision) else None


def install(app: FastAPI) -> None:
    """Answer 304 where a client knows already what it asked for."""
    app.add_exception_handler(NotModified, _on_not_modified)


def document_conditions(operation: dict[str, Any], problem: Any) -> None:
    """Describe the answers of an operation that takes conditions; `problem(status, text)`."""
    headers = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "header"}
    answers = operation["responses"]
    if "If-None-Match" in headers:
        answers["304"] = {"description": "Not Modified: what you have is still true"}
    if "If-Match" in headers:
        answers["412"] = problem(412, "it has changed since it was read")
        answers["428"] = problem(428, "this service wants If-Match with every edit")


async def _etag_check(request: Request, if_none_match: IfNoneMatchHeader = None) -> ETagCheck:
    return ETagCheck(request=request, if_none_match=if_none_match)


async def _revision_check(request: Request, if_match: IfMatchHeader = None) -> RevisionCheck:
    required = bool(get_resources(request).options.get(REQUIRE_IF_MATCH))
    return RevisionCheck(if_match=if_match, required=required, etag=ETagCheck(request=request))


IfNoneMatch = Annotated[ETagCheck, Depends(_etag_check)]
IfMatch = Annotated[RevisionCheck, Depends(_revision_check)]


def _matches_revision(if_match: str, revision: int) -> bool:
    return if_match.strip() == "*" or any(
        not sent.weak and sent.text.partition("-")[0] == str(revision)
        for sent in _parse_tags(if_match)
    )


def _contains_tag(if_none_match: str, tag: str) -> bool:
    return if_none_match.strip() == "*" or any(
        f'"{sent.text}"' == tag for sent in _parse_tags(if_none_match)
    )


def _parse_tags(header: str) -> Iterator[_EntityTag]:
    return (_EntityTag(bool(match[1]), match[2]) for match in _TAG.finditer(header))


def _on_not_modified(_request: Request, error: Exception) -> Response:
    assert isinstance(error, NotModified)
    return Response(status_code=304, headers={"ETag": error.tag})
