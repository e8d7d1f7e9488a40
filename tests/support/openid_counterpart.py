"""A counterpart of an OpenID Connect provider, which sends what a real one must not."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.openid_provider import CLIENT_ID


@cache
def provider_key() -> RSAKey:
    """To make a key takes longer than a login."""
    return RSAKey.generate_key(2048, private=True, auto_kid=True)


class Counterpart:
    """A provider that signs what a test wants: `claims` change the ID token, `...` leaves a claim out.

    `user_info` is the status, the document or the text of the UserInfo endpoint; bytes are a signed answer.
    """

    def __init__(self) -> None:
        self.key = provider_key()
        self.sent: dict[str, Any] = {}
        self.claims: dict[str, Any] = {}
        self.user_info: object = 404
        self.sign: Callable[[dict[str, Any]], str] = self.signed
        self.issuer = ""
        self.key_requests = 0

    def signed(self, claims: dict[str, Any], *, header: dict[str, Any] | None = None) -> str:
        return self.signed_text(json.dumps(claims), **(header or {}))

    def signed_text(self, payload: str, **header: Any) -> str:
        """A token with any payload; by hand, as a library refuses to sign what is odd."""
        whole = json.dumps({"alg": "RS256", "kid": self.key.kid, **header})
        signed = b".".join(
            urlsafe_b64encode(part.encode()).rstrip(b"=") for part in (whole, payload)
        )
        key = self.key.private_key
        assert key is not None
        signature = key.sign(signed, PKCS1v15(), SHA256())
        return f"{signed.decode()}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"

    def app(self) -> Starlette:
        routes = [
            Route("/.well-known/openid-configuration", self.metadata),
            Route("/keys", self.keys),
            Route("/token", self.token, methods=["POST"]),
            Route("/userinfo", self.answer_user_info),
        ]
        return Starlette(routes=routes)

    async def metadata(self, _: Request) -> JSONResponse:
        names = {"authorization": "/login", "token": "/token", "userinfo": "/userinfo"}
        endpoints = {f"{name}_endpoint": self.issuer + path for name, path in names.items()}
        return JSONResponse(
            {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **endpoints}
            | {"id_token_signing_alg_values_supported": ["RS256", "HS256", "none"]}
        )

    async def keys(self, _: Request) -> JSONResponse:
        self.key_requests += 1
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})

    async def token(self, request: Request) -> JSONResponse:
        form = parse_qs((await request.body()).decode())
        assert form["code_verifier"]
        token = self.sign(self.id_claims())
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": token})

    def id_claims(self) -> dict[str, Any]:
        now = int(time.time())
        standard = {"iss": self.issuer, "aud": CLIENT_ID, "sub": "ana", "iat": now, "exp": now + 60}
        email = {"email": "ben@example.org", "email_verified": True, "sid": "session-1"}
        claims = {**standard, **email, "nonce": self.sent["nonce"], **self.claims}
        return {name: claim for name, claim in claims.items() if claim is not ...}

    async def answer_user_info(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer x"
        match self.user_info:
            case int() as status:
                return Response(status_code=status)
            case bytes() as signed:
                return Response(signed, media_type="application/jwt")
            case str() as text:
                return Response(text)
            case document:
                return JSONResponse(document)


def come_back(browser: httpx.Client, counterpart: Counterpart, **changed: str) -> httpx.Response:
    """Log in at the counterpart; `changed` are parameters of the way back."""
    location = browser.get("/login/provider").headers["location"]
    counterpart.sent = {
        name: values[0] for name, values in parse_qs(urlsplit(location).query).items()
    }
    assert counterpart.sent["code_challenge_method"] == "S256"
    query = {"code": "c", "state": counterpart.sent["state"], **changed}
    return browser.get("/login/callback", params=query)
