"""Deletes a resource from a page: asks before others go with it, and names them."""

from collections.abc import Callable
from http import HTTPStatus

from fastapi import Request
from fastapi.responses import Response

from mosaico.core.dependents import Consent, DependentsExist, list_dependents
from mosaico.core.web.forms.sent_fields import SentForm
from mosaico.core.web.pages import render_page, see_other

# The IDs of what the reader was told, and agreed, to delete too.
FIELD = "agreed"


def delete_with_dependents(
    request: Request, form: SentForm, delete: Callable[[Consent], str], *, back: str
) -> Response:
    """Delete and show the page that `delete` returns; or ask, if others would go that the form does not name."""
    try:
        return see_other(delete(Consent(ids=frozenset(form.texts(FIELD)))))
    except DependentsExist as error:
        names = list_dependents(error.dependents)
        return render_page(
            request,
            "confirm.html",
            title="Confirm",
            status=HTTPStatus.CONFLICT,
            question="Delete all of this?",
            consequences=f"{names[:1].upper()}{names[1:]} would be deleted too. This cannot be undone.",
            fields=[(FIELD, dependent.id) for dependent in error.dependents],
            back=back,
        )
