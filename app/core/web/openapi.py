"""Swagger UI from local files, because the Content-Security-Policy allows no other origin."""

from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>MOSAICO API</title>
<link rel="icon" href="/swagger-files/favicon.png">
<link rel="stylesheet" href="/swagger-files/swagger-ui.css">
<link rel="stylesheet" href="/static/swagger-page.css">
<script src="/static/theme.js"></script>
</head>
<body>
<main>
<h1 class="hidden">API of this service</h1>
<p class="note">Requests from this page change this service. Press Authorize and paste an API key
first.</p>
<div id="swagger-ui"></div>
<noscript><p class="note">This page requires JavaScript; the OpenAPI description is at
<a href="/openapi.json">/openapi.json</a>.</p></noscript>
</main>
<script src="/swagger-files/swagger-ui-bundle.js"></script>
<script src="/static/swagger-init.js"></script>
</body>
</html>
"""


def install(app: FastAPI) -> None:
    """Serve the page at `/swagger-ui.html` and `/docs`, and its files."""
    app.mount("/swagger-files", StaticFiles(directory=_packaged_files()), name="swagger-files")
    for path in ("/swagger-ui.html", "/docs"):
        app.add_api_route(path, render_swagger_page, include_in_schema=False)


def render_swagger_page() -> HTMLResponse:
    """The Swagger UI page."""
    return HTMLResponse(PAGE)


def _packaged_files() -> Path:
    spec = find_spec("fastapi_offline")
    if spec is None or spec.origin is None:
        raise RuntimeError("the package fastapi-offline is missing; run `make install`")
    return Path(spec.origin).parent / "static"
