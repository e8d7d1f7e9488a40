"""Rules of API keys, roles and the first admin key."""

import zlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.access.rules import (
    ROLES,
    KeyFormat,
    RoleName,
    classify_key,
    configured_key_error,
    generate_token,
    is_usable,
    parse_token,
    role_allows,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
BODY = "mosaico_read_aaaaaaaaaaaaaaaa_" + "ab" * 26
WHOLE = f"{BODY}_{zlib.crc32(BODY.encode()):08x}"


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("read", ["read"]),
        ("run", ["read", "run"]),
        ("admin", ["read", "run", "admin"]),
        ("root", []),
        ("", []),
    ],
)
def test_role_allows__includes_lesser_roles(role: str, allowed: list[str]) -> None:
    assert [needed for needed in ROLES if role_allows(role, needed)] == allowed


@given(st.sampled_from(ROLES))
def test_generate_token__contains_role_id_and_checksum(role: RoleName) -> None:
    token = generate_token(role)
    prefix, token_role, key_id, secret, checksum = token.text.split("_")
    assert (prefix, token_role, key_id) == ("mosaico", role, token.key_id)
    # 32 bytes in base32 are 256 / 5 = 51.2, so 52 characters; 10 bytes are 80 / 5 = 16.
    assert (len(secret), len(key_id)) == (52, 16)
    body = token.text.removesuffix(f"_{checksum}")
    assert int(checksum, 16) == zlib.crc32(body.encode())
    assert parse_token(token.text) == token


@given(st.data())
def test_classify_key__one_wrong_character_is_not_valid(data: st.DataObject) -> None:
    text = WHOLE
    at = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(
        st.sampled_from("abcdefghijklmnopqrstuvwxyz234567").filter(lambda c: c != text[at])
    )
    mistyped = text[:at] + character + text[at + 1 :]
    assert parse_token(mistyped) is None
    assert classify_key(mistyped) in (KeyFormat.BAD_CHECKSUM, KeyFormat.UNKNOWN)


@given(st.text())
def test_classify_key__any_other_text_is_unknown(text: str) -> None:
    assert classify_key(text) is KeyFormat.UNKNOWN
    assert parse_token(text) is None


def test_classify_key__swapped_characters_have_a_bad_checksum() -> None:
    assert classify_key(WHOLE) is KeyFormat.VALID
    assert classify_key(WHOLE.replace("_abab", "_baab")) is KeyFormat.BAD_CHECKSUM
    assert classify_key(WHOLE + "\n") is KeyFormat.UNKNOWN


def test_configured_key_error__requires_24_characters() -> None:
    assert "23 characters" in (configured_key_error("x" * 23) or "")
    assert configured_key_error("x" * 24) is None
    assert configured_key_error("four words and 2 spaces!") is None
    assert "1025 characters" in (configured_key_error("x" * 1025) or "")


@pytest.mark.parametrize("text", ["ä" * 24, "x" * 24 + "\n", "x" * 12 + "\0" + "x" * 12])
def test_configured_key_error__must_fit_into_a_header(text: str) -> None:
    assert "header" in (configured_key_error(text) or "")


def test_configured_key_error__generated_key_must_be_complete() -> None:
    text = generate_token("admin").text
    assert configured_key_error(text) is None
    damaged = text[:-1] + ("0" if text[-1] != "0" else "1")
    assert "checksum" in (configured_key_error(damaged) or "")


@given(st.text(max_size=2000))
def test_configured_key_error__never_contains_the_key(text: str) -> None:
    fault = configured_key_error(text)
    # A text of a few characters may occur in any sentence.
    assert fault is None or len(text) < 10 or text not in fault


@pytest.mark.parametrize(
    ("expires_in_s", "revoked", "usable"),
    [
        (None, False, True),
        (1, False, True),
        (0, False, False),
        (-1, False, False),
        (1, True, False),
    ],
)
def test_is_usable__until_expiry_or_revocation(
    expires_in_s: int | None, revoked: bool, usable: bool
) -> None:
    expires_at = None if expires_in_s is None else NOW + timedelta(seconds=expires_in_s)
    assert is_usable(expires_at=expires_at, revoked_at=NOW if revoked else None, now=NOW) is usable
