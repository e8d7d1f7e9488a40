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

from app.core.secrets import BadMasterKey, BrokenSeal, Secret, SecretBox, WrongMasterKey

OLD = base64.b64encode(bytes(range(32))).decode()
NEW = base64.b64encode(bytes(range(100, 132))).decode()
BOX = SecretBox.from_keys([OLD])
PLACE = {"table": "agents", "row": "agent-1", "column": "langfuse_secret_key"}
PLAIN = "sk-lf-very-secret"


SEALED = BOX.seal(PLAIN, **PLACE)


def sealed() -> str:
    return BOX.seal(PLAIN, **PLACE)


@given(st.text())
def test_a_sealed_text_opens_where_it_was_sealed(plain: str) -> None:
    assert BOX.open(BOX.seal(plain, **PLACE), **PLACE).reveal() == plain


def test_half_a_surrogate_pair_is_sealed_and_opened_like_any_text() -> None:
    assert BOX.open(BOX.seal("\ud800", **PLACE), **PLACE).reveal() == "\ud800"


def test_a_sealed_text_says_its_format_and_key_and_hides_the_rest() -> None:
    version, key_id, payload = sealed().split(".")
    assert (version, (key_id,)) == ("v1", BOX.key_ids)
    # nonce 12 + text 17 + tag 16
    assert len(base64.urlsafe_b64decode(payload)) == 12 + 17 + 16
    assert PLAIN.encode() not in base64.urlsafe_b64decode(payload)


def test_the_same_text_never_seals_to_the_same_value() -> None:
    assert len({sealed() for _ in range(100)}) == 100


@pytest.mark.parametrize("part", ["table", "row", "column"])
def test_a_sealed_text_does_not_open_in_another_place(part: str) -> None:
    with pytest.raises(BrokenSeal, match="changed or moved"):
        BOX.open(sealed(), **{**PLACE, part: "other"})


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_sealed_text_opens_in_its_own_row_only(row: str, other: str) -> None:
    value = BOX.seal(PLAIN, **{**PLACE, "row": row})
    if row == other:
        assert BOX.open(value, **{**PLACE, "row": other}).reveal() == PLAIN
    else:
        with pytest.raises(BrokenSeal):
            BOX.open(value, **{**PLACE, "row": other})


def test_a_colon_in_a_row_cannot_imitate_another_column() -> None:
    value = BOX.seal(PLAIN, table="agents", row="a:b", column="c")
    with pytest.raises(BrokenSeal):
        BOX.open(value, table="agents", row="a", column="bc")
    with pytest.raises(ValueError, match="no colon"):
        BOX.open(value, table="agents", row="a", column="b:c")


@given(st.data())
def test_a_sealed_text_with_one_character_changed_does_not_open(data: st.DataObject) -> None:
    value = SEALED
    at = data.draw(st.integers(0, len(value) - 1))
    character = data.draw(st.characters().filter(lambda c: c != value[at]))
    with pytest.raises((BrokenSeal, WrongMasterKey)):
        BOX.open(value[:at] + character + value[at + 1 :], **PLACE)


def test_a_sealed_text_has_one_spelling() -> None:
    # 12 + 3 + 16 = 31 bytes end in a character of which base64 reads 2 bits, then "==".
    value = BOX.seal("abc", **PLACE)
    last = value[-3]
    others = [c for c in string.ascii_letters + string.digits + "-_" if c != last]
    respelt = [f"{value[:-3]}{other}==" for other in others]
    for text in [*respelt, value.rstrip("="), value + "=", value + "\n"]:
        with pytest.raises(BrokenSeal):
            BOX.open(text, **PLACE)
    assert BOX.open(value, **PLACE).reveal() == "abc"


@given(st.integers(min_value=0, max_value=60))
def test_a_sealed_text_that_was_cut_does_not_open(length: int) -> None:
    with pytest.raises((BrokenSeal, WrongMasterKey)):
        BOX.open(sealed()[:length], **PLACE)


@given(st.text())
def test_any_other_text_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises((BrokenSeal, WrongMasterKey), match="enter"):
        BOX.open(text, **PLACE)


def test_the_first_master_key_seals_and_all_of_them_open() -> None:
    old, both = sealed(), SecretBox.from_keys([NEW, OLD])
    assert both.open(old, **PLACE).reveal() == PLAIN
    assert SecretBox.from_keys([NEW]).open(both.seal(PLAIN, **PLACE), **PLACE).reveal() == PLAIN


def test_a_missing_master_key_is_named_with_the_remedy() -> None:
    (key_id,) = BOX.key_ids
    with pytest.raises(WrongMasterKey, match=f"master key {key_id}.*MOSAICO_MASTER_KEY"):
        SecretBox.from_keys([NEW]).open(sealed(), **PLACE)


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
def test_a_weak_or_malformed_master_key_is_refused_with_the_remedy(key: str, reason: str) -> None:
    with pytest.raises(BadMasterKey, match=reason) as refusal:
        SecretBox.from_keys([key])
    assert "openssl rand -base64 32" in str(refusal.value)
    assert not key or key not in str(refusal.value)


def test_a_box_needs_a_key() -> None:
    with pytest.raises(BadMasterKey, match="no master key"):
        SecretBox.from_keys([])


def test_a_master_key_may_be_written_in_either_base64_alphabet_and_without_padding() -> None:
    raw = bytes(range(224, 256))
    forms = [base64.b64encode(raw), base64.urlsafe_b64encode(raw).rstrip(b"=")]
    assert len({SecretBox.from_keys([f" {form.decode()}\n"]).key_ids for form in forms}) == 1


def test_a_box_does_not_show_its_keys_and_stays_in_its_process() -> None:
    assert OLD not in repr(BOX)
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(BOX)


@dataclass(frozen=True)
class Holder:
    secret: Secret


def test_a_secret_shows_itself_to_reveal_and_to_nothing_else() -> None:
    secret = Secret(PLAIN)
    assert secret.reveal() == PLAIN
    shown = [
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
    assert [text for text in shown if PLAIN in text] == []


def test_a_secret_is_never_written_out() -> None:
    secret = Secret(PLAIN)
    for write in (pickle.dumps, json.dumps, vars, Secret.__getstate__):
        with pytest.raises(TypeError) as refusal:
            write(secret)
        assert PLAIN not in str(refusal.value)


def test_a_secret_stays_out_of_logs_and_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(PLAIN)
    try:
        list[Secret]().index(secret)
    except ValueError as error:
        logging.getLogger("test").exception("failed with %s", secret)
        report = traceback.TracebackException.from_exception(error, capture_locals=True)
        shown = caplog.text + "".join(report.format())
    assert "failed with ********" in shown
    assert PLAIN not in shown


def test_a_refused_seal_does_not_tell_the_text_in_its_traceback() -> None:
    value = sealed()
    with pytest.raises(BrokenSeal) as refusal:
        BOX.open(value, **{**PLACE, "row": "agent-2"})
    report = traceback.TracebackException.from_exception(refusal.value, capture_locals=True)
    assert PLAIN not in "".join(report.format())


def test_secrets_are_equal_when_their_texts_are() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
