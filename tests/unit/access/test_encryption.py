"""Encryption of secrets, master keys, and secrets that stay out of all output."""

import base64
import copy
import json
import logging
import pickle
import pprint
import string
import traceback
from dataclasses import asdict, dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.encryption import (
    BadMasterKey,
    CorruptedSecret,
    Secret,
    SecretBox,
    UnknownMasterKey,
)

OLD = base64.b64encode(bytes(range(32))).decode()
NEW = base64.b64encode(bytes(range(100, 132))).decode()
BOX = SecretBox.from_keys([OLD])
CELL = {"table": "agents", "row": "agent-1", "column": "langfuse_secret_key"}
PLAIN = "sk-lf-very-secret"


ENCRYPTED = BOX.encrypt(PLAIN, **CELL)


def encrypt_plain() -> str:
    return BOX.encrypt(PLAIN, **CELL)


@given(st.text())
def test_decrypt__returns_the_encrypted_text(plain: str) -> None:
    assert BOX.decrypt(BOX.encrypt(plain, **CELL), **CELL).reveal() == plain


def test_encrypt__same_text_gives_different_ciphertexts() -> None:
    assert len({encrypt_plain() for _ in range(100)}) == 100


@pytest.mark.parametrize("part", ["table", "row", "column"])
def test_decrypt__ciphertext_of_another_cell_is_refused(part: str) -> None:
    with pytest.raises(CorruptedSecret, match="changed or moved"):
        BOX.decrypt(encrypt_plain(), **{**CELL, part: "other"})


@given(st.text(min_size=1), st.text(min_size=1))
def test_decrypt__ciphertext_of_another_row_is_refused(row: str, other: str) -> None:
    encrypted = BOX.encrypt(PLAIN, **{**CELL, "row": row})
    if row == other:
        assert BOX.decrypt(encrypted, **{**CELL, "row": other}).reveal() == PLAIN
    else:
        with pytest.raises(CorruptedSecret):
            BOX.decrypt(encrypted, **{**CELL, "row": other})


def test_decrypt__colon_in_row_id_does_not_match_another_column() -> None:
    # The parts of a cell are joined by colons: "agents:a:b:c" would be the name of both cells.
    encrypted = BOX.encrypt(PLAIN, table="agents", row="a:b", column="c")
    with pytest.raises(CorruptedSecret):
        BOX.decrypt(encrypted, table="agents", row="a", column="bc")
    with pytest.raises(ValueError, match="contain a colon"):
        BOX.decrypt(encrypted, table="agents", row="a", column="b:c")


@given(st.data())
def test_decrypt__changed_character_is_refused(data: st.DataObject) -> None:
    encrypted = ENCRYPTED
    position = data.draw(st.integers(0, len(encrypted) - 1))
    character = data.draw(st.characters().filter(lambda c: c != encrypted[position]))
    with pytest.raises((CorruptedSecret, UnknownMasterKey)):
        BOX.decrypt(encrypted[:position] + character + encrypted[position + 1 :], **CELL)


def test_decrypt__non_canonical_base64_is_refused() -> None:
    # 12 + 3 + 16 = 31 bytes: base64 uses only 2 bits of the last character before "==".
    encrypted = BOX.encrypt("abc", **CELL)
    last = encrypted[-3]
    other_characters = [c for c in string.ascii_letters + string.digits + "-_" if c != last]
    non_canonical = [f"{encrypted[:-3]}{other}==" for other in other_characters]
    for text in [*non_canonical, encrypted.rstrip("="), encrypted + "=", encrypted + "\n"]:
        with pytest.raises(CorruptedSecret):
            BOX.decrypt(text, **CELL)
    assert BOX.decrypt(encrypted, **CELL).reveal() == "abc"


@given(st.integers(min_value=0, max_value=60))
def test_decrypt__truncated_text_is_refused(length: int) -> None:
    with pytest.raises((CorruptedSecret, UnknownMasterKey)):
        BOX.decrypt(encrypt_plain()[:length], **CELL)


@given(st.text())
def test_decrypt__unencrypted_text_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises((CorruptedSecret, UnknownMasterKey), match="enter"):
        BOX.decrypt(text, **CELL)


def test_secret_box__first_key_encrypts_and_each_key_decrypts() -> None:
    old, both = encrypt_plain(), SecretBox.from_keys([NEW, OLD])
    assert both.decrypt(old, **CELL).reveal() == PLAIN
    assert SecretBox.from_keys([NEW]).decrypt(both.encrypt(PLAIN, **CELL), **CELL).reveal() == PLAIN


def test_decrypt__unknown_master_key_is_named_with_a_remedy() -> None:
    (key_id,) = BOX.key_ids
    with pytest.raises(UnknownMasterKey, match=f"master key {key_id}.*MOSAICO_MASTER_KEY"):
        SecretBox.from_keys([NEW]).decrypt(encrypt_plain(), **CELL)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "0 bytes, not 32"),
        ("secret", "not base64|bytes, not 32"),
        ("päßword", "not base64"),
        (base64.b64encode(bytes(range(31))).decode(), "31 bytes, not 32"),
        (base64.b64encode(bytes(range(64))).decode(), "64 bytes, not 32"),
        (base64.b64encode(b"a" * 32).decode(), "not random"),
        (base64.b64encode(b"0123456789" * 3 + b"01").decode(), "not random"),
    ],
)
def test_secret_box__weak_or_malformed_key_is_refused_with_a_remedy(key: str, reason: str) -> None:
    with pytest.raises(BadMasterKey, match=reason) as refusal:
        SecretBox.from_keys([key])
    assert "openssl rand -base64 32" in str(refusal.value)
    assert not key or key not in str(refusal.value)


def test_master_key__accepts_both_base64_alphabets_without_padding() -> None:
    # Bytes whose base64 has both characters in which the alphabets differ, + and /.
    raw = bytes(range(224, 256))
    forms = [base64.b64encode(raw), base64.urlsafe_b64encode(raw).rstrip(b"=")]
    assert len({SecretBox.from_keys([f" {form.decode()}\n"]).key_ids for form in forms}) == 1


def test_secret_box__hides_its_keys_and_cannot_be_pickled() -> None:
    assert OLD not in repr(BOX)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(BOX)


@dataclass(frozen=True)
class Holder:
    secret: Secret


def test_secret__is_masked_by_everything_but_reveal() -> None:
    secret = Secret(PLAIN)
    assert secret.reveal() == PLAIN
    representations = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret:>40}",
        f"{secret!r}",
        "%s %r" % (secret, secret),  # noqa: UP031
        repr([secret, {"key": secret}]),
        repr(Holder(secret)),
        repr(asdict(Holder(secret))),
        repr(copy.deepcopy(secret)),
        pprint.pformat(Holder(secret)),
        json.dumps({"key": secret}, default=str),
    ]
    assert [text for text in representations if PLAIN in text] == []


def test_secret__cannot_be_serialized() -> None:
    secret = Secret(PLAIN)
    for write in (pickle.dumps, json.dumps, vars, Secret.__getstate__):
        with pytest.raises(TypeError) as refusal:
            write(secret)
        assert PLAIN not in str(refusal.value)


def test_secret__is_masked_in_logs_and_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(PLAIN)
    try:
        list[Secret]().index(secret)
    except ValueError as error:
        logging.getLogger("test").exception("failed with %s", secret)
        report = traceback.TracebackException.from_exception(error, capture_locals=True)
        log_text = caplog.text + "".join(report.format())
    assert "failed with ********" in log_text
    assert PLAIN not in log_text


def test_decrypt__traceback_of_a_refusal_does_not_contain_the_text() -> None:
    encrypted = encrypt_plain()
    with pytest.raises(CorruptedSecret) as refusal:
        BOX.decrypt(encrypted, **{**CELL, "row": "agent-2"})
    report = traceback.TracebackException.from_exception(refusal.value, capture_locals=True)
    assert PLAIN not in "".join(report.format())
