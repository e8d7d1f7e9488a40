"""The page that explains the pages: keys, words, and where the other ways to use the service are."""

from fastapi import Request, Response

from app.access.deps import READ
from app.core.web.pages import public_url, render_page
from app.core.web.routes import Router

router = Router()


@router.get("/help", dependencies=READ)
def show_help(request: Request) -> Response:
    """Keyboard shortcuts, verdicts and words, the API, the command line and the documentation."""
    return render_page(request, "help.html", title="Help", nav="", url_base=public_url(request))
