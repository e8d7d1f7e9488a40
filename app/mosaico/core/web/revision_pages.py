"""The page of all revisions of a resource."""

from collections.abc import Sequence
from typing import Any

from fastapi import Request, Response

from mosaico.core.keyset import PageRows
from mosaico.core.web.pages import Crumb, list_in_api, render_page


def render_revisions(
    request: Request, steps: Sequence[Crumb], page: PageRows[Any], *, api: str | None = None
) -> Response:
    """The edits of the resource that the last step names, newest first; `api` is its address in the API where that is
    another one than on pages.
    """
    owner = steps[-1]
    return render_page(
        request,
        "history.html",
        title=f"Revisions of {owner.text}",
        nav=steps[0].url,
        api=list_in_api(request, f"{api or owner.url}/revisions"),
        steps=steps,
        path=f"{owner.url}/revisions",
        revisions=page.rows,
        next_cursor=page.next_cursor,
    )
