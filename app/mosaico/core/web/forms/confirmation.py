"""Asks before a change that is hard to undo, also in a browser without JavaScript.

A form with a question has it in the field `confirm`. The script of the pages asks, and leaves the field out. Without
it, the answer to the form is a page that asks, and whose button sends the other fields again.
"""

from urllib.parse import urlsplit

from fastapi import Request

from mosaico.core.errors import AppError
from mosaico.core.web.deps import SAFE_METHODS
from mosaico.core.web.forms.sent_fields import FORM_TYPE, FormFields, local_path, read_form
from mosaico.core.web.request_body import read_content_type

CONFIRM_FIELD = "confirm"
# The page to go back to, of a form that was sent by another page, such as the one after a login.
BACK_FIELD = "back"


class ConfirmationRequired(AppError):
    """The sender of this form must confirm it; send it again without the field `confirm`."""

    status = 428
    exit_code = 65

    def __init__(self, form: FormFields) -> None:
        super().__init__()
        self.question = form.text(CONFIRM_FIELD)
        self.back = form.text(BACK_FIELD)
        self.fields = [
            (name, value)
            for name, values in form.items()
            if name not in {CONFIRM_FIELD, BACK_FIELD}
            for value in values
        ]


async def require_confirmation(request: Request) -> None:
    """Raise `ConfirmationRequired` for a form that has a question."""
    if request.method in SAFE_METHODS or read_content_type(request) != FORM_TYPE:
        return
    form = await read_form(request)
    if form.text(CONFIRM_FIELD):
        raise ConfirmationRequired(form)


def page_before(request: Request) -> str:
    """The path of the page that sent the form."""
    referer = urlsplit(request.headers.get("referer", ""))
    query = f"?{referer.query}" if referer.query else ""
    return local_path(f"{referer.path}{query}" or "/")
