"""A client of an OpenID Connect provider: the code flow with PKCE, and logouts that the provider reports.

Sources: OpenID Connect Core 1.0 (3.1), Discovery 1.0, Back-Channel Logout 1.0; RFC 7636 (PKCE); RFC 9700 (best
current practice). Signatures and claims are checked by joserfc and Authlib, which are imported for the first login only:
they take longer than the rest of the API, and most services have no provider.
"""

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import httpx

from mosaico.access.login_rules import Identity
from mosaico.access.openid_claims import (
    IdClaims,
    LogoutClaims,
    WrongClaims,
    check_claims,
    display_name,
    texts_of,
    verified_email,
    with_user_info,
)
from mosaico.core.errors import AppError, Unauthorized, Unavailable
from mosaico.core.http.client import outbound_client
from mosaico.core.login_settings import OpenIdSettings
from mosaico.core.network_policy import ALLOW_ALL_ADDRESSES

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

TIMEOUT_S: Final = 10.0
MAX_BYTES: Final = 1024 * 1024
METADATA_LIFETIME_S: Final = 600.0
NEW_KEYS_INTERVAL_S: Final = 10.0
LEEWAY_S: Final = 60
# Only signatures that the provider alone can make: not `none`, and not those of the shared secret of the client.
SIGNATURES: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"


class LoginRefused(Unauthorized):
    """The login at the provider did not succeed; start it again, or log in with an API key."""


class LogoutRefused(AppError):
    """The logout token is not valid; the provider must send one of its own, for this service, made a moment ago."""

    status = 400
    exit_code = 65


class ProviderUnavailable(Unavailable):
    """The login provider does not answer; try again in a minute, or log in with an API key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAttempt:
    """What a browser keeps between the redirect to the provider and the way back."""

    state: str
    nonce: str
    verifier: str
    target: str

    @classmethod
    def begin(cls, target: str) -> "LoginAttempt":
        """A new attempt, which leads to the page `target`."""
        return cls(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            target=target,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLogout:
    """Whose sessions end: those of a session at the provider, or all of a person."""

    subject: str | None
    session_id: str | None


class OpenIdProvider:
    """The provider of the settings. Its metadata and keys are kept for ten minutes."""

    def __init__(
        self, settings: OpenIdSettings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, Any]] = {}
        self._new_keys_from = 0.0

    def login_url(self, attempt: LoginAttempt, callback: str) -> str:
        """The address at the provider to which a browser goes. Raises: `ProviderUnavailable`."""
        # Imported for logins only, as the docstring of the module says.
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        fields = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": callback,
            "scope": self.settings.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": create_s256_code_challenge(attempt.verifier),
            "code_challenge_method": "S256",
        }
        return _with_query(self._endpoint("authorization_endpoint"), fields)

    def identify(self, code: str, attempt: LoginAttempt, callback: str) -> Identity:
        """The person for whom the provider issued a code. Raises: `LoginRefused`, `ProviderUnavailable`."""
        tokens = self._redeem(code, attempt, callback)
        id_token, access_token = tokens.get("id_token"), tokens.get("access_token")
        if not isinstance(id_token, str):
            raise LoginRefused("the provider sent no ID token; the scope openid is needed")
        parameters = {
            "nonce": attempt.nonce,
            "client_id": self.settings.client_id,
            "access_token": access_token,
        }
        claims = self._verified(id_token, parameters)
        # With an access token, most claims need not be in the ID token (OpenID Connect Core 5.4).
        is_whole = {"name", "email", "email_verified", self.settings.groups_claim} <= claims.keys()
        if not is_whole and isinstance(access_token, str):
            claims = with_user_info(claims, self._user_info(access_token, claims["sub"]))
        return self._identity(claims)

    def read_logout(self, logout_token: str) -> ReportedLogout:
        """Whose sessions a provider ends. Raises: `LogoutRefused`, `ProviderUnavailable`."""
        try:
            claims = self._decode(logout_token)
            self._check_logout(claims)
        except (LoginRefused, WrongClaims) as error:
            raise LogoutRefused(str(error)) from error
        return ReportedLogout(subject=claims.get("sub"), session_id=claims.get("sid"))

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        return Identity(
            issuer=self.settings.issuer,
            subject=claims["sub"],
            name=display_name(claims),
            email=verified_email(claims),
            groups=texts_of(claims.get(self.settings.groups_claim)),
            session_id=claims.get("sid"),
        )

    def _redeem(self, code: str, attempt: LoginAttempt, callback: str) -> dict[str, Any]:
        """The tokens for a code. The secret is sent as RFC 6749 (2.3.1) demands of every server."""
        secret = self.settings.client_secret
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "code_verifier": attempt.verifier,
            "client_id": self.settings.client_id,
        }
        methods = self._metadata().get("token_endpoint_auth_methods_supported") or []
        is_posted = bool(methods) and "client_secret_basic" not in methods
        if secret is not None and is_posted:
            fields["client_secret"] = secret.reveal()
        basic = (
            httpx.BasicAuth(self.settings.client_id, secret.reveal())
            if secret is not None and not is_posted
            else None
        )
        response = self._send("POST", self._endpoint("token_endpoint"), data=fields, auth=basic)
        if response.status_code != HTTPStatus.OK:
            raise LoginRefused(
                f"the provider did not accept the login: {_error_of(response)}; start it again"
            )
        return _json_of(response)

    def _user_info(self, access_token: str, subject: str) -> dict[str, Any]:
        """Claims that are not in the ID token; empty if the provider has no such endpoint, or refuses them.

        Raises: `ProviderUnavailable`: without its groups, somebody would lose their role.
        """
        address = self._metadata().get("userinfo_endpoint")
        if not isinstance(address, str):
            return {}
        response = self._send("GET", address, headers={"Authorization": f"Bearer {access_token}"})
        if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _unexpected_status(response)
        if response.status_code != HTTPStatus.OK:
            return {}
        is_signed = response.headers.get("content-type", "").startswith("application/jwt")
        claims = self._decode(response.text) if is_signed else _json_of(response)
        # OpenID Connect Core 5.3.2: the answer may be about somebody else.
        return claims if claims.get("sub") == subject else {}

    def _verified(self, token: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        # As above.
        from authlib.oidc.core import CodeIDToken
        from joserfc.errors import JoseError

        header: dict[str, Any] = {}
        decoded = self._decode(token, header)
        options = {
            "iss": {"essential": True, "values": [self.settings.issuer]},
            "aud": {"essential": True, "values": [self.settings.client_id]},
        }
        try:
            check_claims(IdClaims, decoded)
            CodeIDToken(decoded, header, options, dict(parameters)).validate(leeway=LEEWAY_S)
        except (JoseError, WrongClaims) as error:
            raise LoginRefused(f"the ID token of the provider is not valid: {error}") from error
        return decoded

    def _check_logout(self, sent: Mapping[str, Any]) -> None:
        """Raises: `LoginRefused`, `WrongClaims`. Source: Back-Channel Logout 1.0, 2.6."""
        claims, now = check_claims(LogoutClaims, sent), time.time()
        is_valid = (
            claims.iss == self.settings.issuer
            and self.settings.client_id in texts_of(claims.aud)
            and isinstance(claims.events.get(LOGOUT_EVENT), dict)
            and "nonce" not in sent
            and abs(now - claims.iat) <= LEEWAY_S + METADATA_LIFETIME_S
            and (claims.exp is None or claims.exp + LEEWAY_S >= now)
            and (claims.nbf is None or claims.nbf - LEEWAY_S <= now)
        )
        if not is_valid:
            raise LoginRefused("the logout token is not one of this provider for this service")
        if claims.sub is None and claims.sid is None:
            raise LoginRefused("the logout token names neither a person nor a session")

    def _decode(self, token: str, header: dict[str, Any] | None = None) -> dict[str, Any]:
        """The claims of a token whose signature is right. Raises: `LoginRefused`, `ProviderUnavailable`."""
        # As above.
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError
        from joserfc.jws import JWSRegistry

        offered = self._metadata().get("id_token_signing_alg_values_supported") or ["RS256"]
        allowed = [name for name in SIGNATURES if name in offered]
        registry = JWSRegistry(algorithms=allowed, strict_check_header=False)
        try:
            try:
                decoded = jwt.decode(token, self._keys(), registry=registry)
            except InvalidKeyIdError:
                # The provider has new keys.
                decoded = jwt.decode(token, self._keys(is_new=True), registry=registry)
        # The library reads some members of a header without a look at their type.
        except (JoseError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise LoginRefused(
                f"the signature of the provider's token is not valid: {error}"
            ) from error
        if header is not None:
            header.update(decoded.header)
        return dict(decoded.claims)

    def _metadata(self) -> dict[str, Any]:
        address = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        metadata: dict[str, Any] = self._fetched(address)
        if metadata.get("issuer") != self.settings.issuer:
            raise ProviderUnavailable(
                f"the provider calls itself {metadata.get('issuer')!r}; set MOSAICO_OIDC_ISSUER to exactly that"
            )
        return metadata

    def _endpoint(self, name: str) -> str:
        address = self._metadata().get(name)
        if not isinstance(address, str):
            raise ProviderUnavailable(f"the provider names no {name}")
        return address

    def _keys(self, *, is_new: bool = False) -> "KeySet":
        # As above.
        from joserfc.jwk import KeySet

        address = self._endpoint("jwks_uri")
        if is_new:
            with self._lock:
                # Anybody may send a token with an unknown key: that must not become many requests to the provider.
                if self._monotonic() >= self._new_keys_from:
                    self._new_keys_from = self._monotonic() + NEW_KEYS_INTERVAL_S
                    self._kept.pop(address, None)
        document = self._fetched(address)
        if "keys" not in document:
            raise ProviderUnavailable(f"the provider has no keys at {address}")
        return KeySet.import_key_set(document)

    def _fetched(self, address: str) -> Any:
        with self._lock:
            kept_until, document = self._kept.get(address, (0.0, None))
            if self._monotonic() < kept_until:
                return document
        response = self._send("GET", address)
        if response.status_code != HTTPStatus.OK:
            raise _unexpected_status(response)
        document = _json_of(response)
        with self._lock:
            self._kept[address] = (self._monotonic() + METADATA_LIFETIME_S, document)
        return document

    def _send(self, method: str, address: str, **options: Any) -> httpx.Response:
        """Raises: `ProviderUnavailable`."""
        # The operator chose the provider, which is often on the same network.
        with outbound_client(
            timeout_s=TIMEOUT_S, max_bytes=MAX_BYTES, policy=ALLOW_ALL_ADDRESSES
        ) as client:
            try:
                return client.request(method, address, **options)
            except httpx.HTTPError as error:
                raise ProviderUnavailable(
                    f"the login provider {httpx.URL(address).host} does not answer ({type(error).__name__});"
                    " try again in a minute, or log in with an API key"
                ) from error


def _with_query(address: str, fields: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(fields)}"


def _unexpected_status(response: httpx.Response) -> ProviderUnavailable:
    return ProviderUnavailable(
        f"the login provider answered {response.status_code} to {response.request.url}"
    )


def _json_of(response: httpx.Response) -> dict[str, Any]:
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ProviderUnavailable("the login provider did not answer with a JSON object")
    return document


def _error_of(response: httpx.Response) -> str:
    """The error that a provider names; only its short code, which is no secret."""
    try:
        return str(response.json()["error"])[:100]
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code}"
