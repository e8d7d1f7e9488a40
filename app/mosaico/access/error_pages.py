"""The page of an error, and the page that asks for a confirmation."""

from typing import Final

from fastapi import Request, Response

from mosaico.core.errors import AppError, without_request
from mosaico.core.problem_documents import problem_title, request_id
from mosaico.core.web.forms.confirmation import ConfirmationRequired, page_before
from mosaico.core.web.forms.sent_fields import local_path
from mosaico.core.web.page_paths import find_section
from mosaico.core.web.pages import WORDS, render_page

# Of errors whose code says too little, or another word than the pages.
PAGE_TITLES: Final = {
    "invalid": "The input is not valid",
    "repeated-parameter": "The address repeats a value",
    "alert-config-not-found": "Alert rule not found",
    "method-not-allowed": "This address only receives forms",
    "illegal-transition": "Its status does not allow that",
    "bad-cursor": "The list has no such page",
}
# Of errors whose detail speaks of the API.
PAGE_DETAILS: Final = {
    "method-not-allowed": "Go back to the page that has the form.",
    "bad-cursor": "Start again from the first page of the list.",
}


def render_error(request: Request, error: AppError) -> Response:
    """The page of an error: what is wrong, what to do, and the id of the request."""
    if isinstance(error, ConfirmationRequired):
        return _render_question(request, error)
    response = render_page(
        request,
        "error.html",
        title=PAGE_TITLES.get(error.error_code) or problem_title(error.error_code),
        status=error.status,
        error=error,
        errors=() if error.error_code in PAGE_DETAILS else error.errors,
        detail=_detail_of(error),
        section=find_section(request.url.path),
        request_id=request_id(request.scope) or "",
        has_secrets=True,
    )
    for name, value in error.extra.get("headers", {}).items():
        response.headers[name] = value
    return response


def _detail_of(error: AppError) -> str:
    # The usual detail of the API names its field `errors`; the page lists them.
    if error.errors and "`errors`" in error.detail:
        return "Correct these values:"
    return PAGE_DETAILS.get(error.error_code) or WORDS.translate(without_request(error.detail))


def _render_question(request: Request, error: ConfirmationRequired) -> Response:
    """The page that asks for a confirmation: the question, then what the change causes."""
    question, mark, consequences = error.question.partition("?")
    return render_page(
        request,
        "confirm.html",
        title="Confirm",
        status=error.status,
        question=question + mark,
        consequences=consequences.strip(),
        fields=error.fields,
        back=local_path(error.back) if error.back else page_before(request),
        has_secrets=True,
    )
