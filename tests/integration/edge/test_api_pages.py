"""The Swagger page and the OpenAPI description."""

import re

import httpx

from mosaico.core.web.response_headers import CONTENT_SECURITY_POLICY


def test_api_page__has_the_policy_of_the_pages(client: httpx.Client) -> None:
    """Criterion 38, besides what a browser does with the page."""
    for address in ("/docs", "/swagger-ui.html"):
        policy = client.get(address).headers["content-security-policy"]
        assert policy == CONTENT_SECURITY_POLICY
        assert "unsafe-" not in policy


def test_api_page__has_no_inline_script_or_style(client: httpx.Client) -> None:
    page = client.get("/docs").text
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page) == []


def test_api_page__keys_are_not_stored_in_the_browser(client: httpx.Client) -> None:
    assert "persistAuthorization: false" in client.get("/static/swagger-init.js").text


def test_openapi__describes_bearer_keys_and_problem_documents(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    schemes = document["components"]["securitySchemes"]
    assert (schemes["ApiKey"]["type"], schemes["ApiKey"]["scheme"]) == ("http", "bearer")
    # Whoever calls a webhook signs instead.
    signed = {name: scheme["in"] for name, scheme in schemes.items() if name != "ApiKey"}
    assert signed == {"LangfuseSignature": "header", "StandardWebhooks": "header"}
    assert document["components"]["schemas"]["Problem"]["required"][0] == "type"
    assert document["servers"] == [{"url": "/", "description": "this service"}]
