"""Secrets: texts that never show themselves, sealed before they are stored.

A sealed text is `v1.<key id>.<base64url of nonce and ciphertext>`: AES-256-GCM with a random
96-bit nonce, bound to its table, row and column, so that a ciphertext copied elsewhere does not
open. The key id says which master key sealed it, so that several can be in use at once.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app.core.errors import AppError
from app.core.secret_files import create_secret_file, read_secret_file

MASTER_KEY_FILE = "master.key"
MASTER_KEY_BYTES = 32
NONCE_BYTES = 12
FORMAT = "v1"

# 32 random bytes hold about 30 different values; fewer than 16 never happens by chance.
FEWEST_DIFFERENT_BYTES = 16

# Some text in base64 is printable throughout; random bytes are, once in 10^13.
PRINTABLE = range(0x20, 0x7F)

MAKE_A_KEY = "make one with `openssl rand -base64 32`"


class BadMasterKey(AppError):
    """The master key is missing or unfit; set MOSAICO_MASTER_KEY to 32 random bytes in base64."""

    code = "bad-master-key"
    exit_code = 78


class WrongMasterKey(AppError):
    """A stored secret was sealed with a master key that is not known here; bring that key back."""

    code = "wrong-master-key"
    exit_code = 78


class BrokenSeal(AppError):
    """A stored secret was changed or moved and cannot be opened; enter the secret again."""

    code = "broken-seal"


class Secret:
    """A text that shows itself only to `reveal`: not to print, log, pickle, JSON or a traceback."""

    __slots__ = ("_plain",)

    MASK: ClassVar[str] = "********"

    def __init__(self, plain: str) -> None:
        self._plain = plain

    def reveal(self) -> str:
        return self._plain

    def __repr__(self) -> str:
        return f"Secret({self.MASK!r})"

    def __str__(self) -> str:
        return self.MASK

    def __format__(self, spec: str) -> str:
        return format(self.MASK, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_bytes(self._plain), _bytes(other._plain))

    def __hash__(self) -> int:
        return hash((Secret, self._plain))

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, _memo: dict[int, object]) -> "Secret":
        return self

    def __getstate__(self) -> NoReturn:
        raise TypeError("a Secret is not written out; seal it with SecretBox.seal instead")

    def __reduce__(self) -> NoReturn:
        self.__getstate__()


class SecretBox:
    """The master keys of a process: the first seals, every one of them opens."""

    __slots__ = ("_ciphers", "_sealing_id")

    def __init__(self, ciphers: Mapping[str, AESGCM], sealing_id: str) -> None:
        self._ciphers = dict(ciphers)
        self._sealing_id = sealing_id

    @classmethod
    def from_keys(cls, keys: Sequence[str]) -> "SecretBox":
        """A box of master keys in base64, 32 bytes each. Raises `BadMasterKey`."""
        if not keys:
            raise BadMasterKey(f"no master key was given; {MAKE_A_KEY}")
        decoded = [_decoded_key(key) for key in keys]
        return cls({_key_id(key): AESGCM(key) for key in decoded}, _key_id(decoded[0]))

    @property
    def sealing_id(self) -> str:
        """The id of the key that seals."""
        return self._sealing_id

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the known keys; they tell keys apart and reveal nothing of them."""
        return tuple(self._ciphers)

    def seal(self, plain: str, *, table: str, row: str, column: str) -> str:
        """Encrypt a text for one place; the same text never seals to the same value twice."""
        nonce = os.urandom(NONCE_BYTES)
        place = _place(table=table, row=row, column=column)
        ciphertext = self._ciphers[self._sealing_id].encrypt(nonce, _bytes(plain), place)
        payload = base64.urlsafe_b64encode(nonce + ciphertext).decode("ascii")
        return f"{sealed_by(self._sealing_id)}{payload}"

    def open(self, sealed: str, *, table: str, row: str, column: str) -> Secret:
        """Decrypt a text that was sealed for this place.

        Raises: `WrongMasterKey` when its key is not known here, `BrokenSeal` when the value was
        changed, cut or moved from another place.
        """
        where = f"the secret {column} of {table} {row!r}"
        key_id, payload = _parts(sealed, where)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise WrongMasterKey(_missing_key(where, key_id, self.key_ids))
        place = _place(table=table, row=row, column=column)
        try:
            plain = cipher.decrypt(payload[:NONCE_BYTES], payload[NONCE_BYTES:], place)
        except InvalidTag:
            raise BrokenSeal(_broken(where)) from None
        return Secret(plain.decode("utf-8", "surrogatepass"))

    def __repr__(self) -> str:
        return f"SecretBox({', '.join(self._ciphers)})"

    def __getstate__(self) -> NoReturn:
        raise TypeError("a SecretBox stays in its process; build one from its keys in the other")

    def __reduce__(self) -> NoReturn:
        self.__getstate__()


def load_or_create_master_key(
    data_dir: Path, configured: str | None, *, embedded: bool, old: Sequence[str] = ()
) -> SecretBox:
    """The box of this installation.

    The key comes from `configured` (MOSAICO_MASTER_KEY or its file). With the embedded database,
    and only then, it may come from `master.key` in the data folder, made there once with mode
    0600; a file from before the variable was set still opens what it sealed, as do `old` keys.
    Raises: `BadMasterKey`, `UnsafeSecretFile`.
    """
    path = data_dir / MASTER_KEY_FILE
    kept = read_secret_file(path) if embedded else None
    if configured is not None and configured.strip():
        return SecretBox.from_keys([configured, *old, *([] if kept is None else [kept])])
    if not embedded:
        raise BadMasterKey(
            "MOSAICO_MASTER_KEY is not set, and an external database needs one that every process"
            f" shares; {MAKE_A_KEY} and set it for each of them"
        )
    if kept is None:
        made = base64.b64encode(secrets.token_bytes(MASTER_KEY_BYTES)).decode("ascii")
        kept = create_secret_file(path, made)
    return SecretBox.from_keys([kept, *old])


def require_random(key: str) -> None:
    """Refuse a key that somebody made up: a phrase, or bytes in a row. Raises `BadMasterKey`."""
    found = _decoded_key(key)
    steps = {(after - before) % 256 for before, after in pairwise(found)}
    if all(byte in PRINTABLE for byte in found) or len(steps) == 1:
        raise BadMasterKey(f"the master key is not random; {MAKE_A_KEY}")


def sealed_by(key_id: str) -> str:
    """How every text begins that this master key has sealed."""
    return f"{FORMAT}.{key_id}."


def _decoded_key(text: str) -> bytes:
    standard = text.strip().translate(str.maketrans("-_", "+/"))
    try:
        key = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise BadMasterKey(f"the master key is not base64; {MAKE_A_KEY}") from None
    if len(key) != MASTER_KEY_BYTES:
        raise BadMasterKey(
            f"the master key has {len(key)} bytes, not {MASTER_KEY_BYTES}; {MAKE_A_KEY}"
        )
    if len(set(key)) < FEWEST_DIFFERENT_BYTES:
        raise BadMasterKey(f"the master key is not random; {MAKE_A_KEY}")
    return key


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"mosaico master key id\0" + key).hexdigest()[:8]


def _place(*, table: str, row: str, column: str) -> bytes:
    # Only the row may hold a colon: the first and the last one then still end table and row.
    if ":" in table or ":" in column:
        raise ValueError("names of tables and columns hold no colon")
    return _bytes(f"{table}:{row}:{column}")


def _parts(sealed: str, where: str) -> tuple[str, bytes]:
    version, _, rest = sealed.partition(".")
    key_id, _, encoded = rest.partition(".")
    try:
        payload = base64.b64decode(encoded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BrokenSeal(_broken(where)) from None
    # One payload has one spelling: base64 itself would ignore the last bits of a text.
    canonical = base64.urlsafe_b64encode(payload).decode("ascii") == encoded
    if version != FORMAT or not canonical or len(payload) < NONCE_BYTES:
        raise BrokenSeal(_broken(where))
    return key_id, payload


def _broken(where: str) -> str:
    return f"{where} was changed or moved and cannot be opened; enter it again"


def _missing_key(where: str, key_id: str, known: Sequence[str]) -> str:
    return (
        f"{where} was sealed with master key {key_id}, known here: {', '.join(known)};"
        f" add that key to MOSAICO_MASTER_KEYS_OLD (or restore {MASTER_KEY_FILE} in the data folder),"
        " or enter the secret again"
    )


def _bytes(text: str) -> bytes:
    # An encoding error would carry the whole text in its arguments.
    return text.encode("utf-8", "surrogatepass")
