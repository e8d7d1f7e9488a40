"""Encryption of stored secrets: the master keys, and texts that never appear in output.

An encrypted text is `v1.<key id>.<base64url of nonce and ciphertext>`: AES-256-GCM with a random
96-bit nonce. Table, row and column are authenticated with it, so that a ciphertext copied to
another place cannot be decrypted there. The key id names the master key, so that several master
keys can be in use during a key rotation.
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
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

from mosaico.core.errors import AppError, Misconfigured
from mosaico.core.secret_files import create_secret_file, read_secret_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MASTER_KEY_FILE = "master.key"
MASTER_KEY_BYTES = 32
NONCE_BYTES = 12
FORMAT = "v1"

# 32 random bytes contain about 30 distinct values; fewer than 16 never happen by chance.
MIN_DISTINCT_BYTES = 16

# A base64-encoded phrase decodes to printable bytes only; of 10^13 random keys one does.
PRINTABLE = range(0x20, 0x7F)

KEY_HINT = "create one with `openssl rand -base64 32`"

# Column marker of the ORM models: `mapped_column(info=ENCRYPTED)`.
ENCRYPTED: Final = {"encrypted": True}


class UnknownMasterKey(Misconfigured):
    """A stored secret is encrypted with a master key that is not configured; restore that key."""


class CorruptedSecret(AppError):
    """A stored secret was changed or moved and cannot be decrypted; enter the secret again."""


class Secret:
    """A text that only `reveal` returns: print, logs, pickle, JSON and tracebacks show a mask."""

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
        # In constant time: the duration must not reveal how many characters are right.
        return hmac.compare_digest(_encode(self._plain), _encode(other._plain))

    def __hash__(self) -> int:
        return hash((Secret, self._plain))

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, _memo: dict[int, object]) -> "Secret":
        return self

    def __getstate__(self) -> NoReturn:
        raise TypeError("a Secret cannot be serialized; encrypt it with SecretBox.encrypt")

    def __reduce__(self) -> NoReturn:
        self.__getstate__()


class SecretBox:
    """The master keys of a process: the first key encrypts, each key decrypts."""

    __slots__ = ("_encryption_key_id", "_keys")

    def __init__(self, keys: Mapping[str, bytes], encryption_key_id: str) -> None:
        self._keys = dict(keys)
        self._encryption_key_id = encryption_key_id

    @classmethod
    def from_keys(cls, keys: Sequence[str]) -> "SecretBox":
        """Build the box from base64 master keys of 32 bytes each. Raises `Misconfigured`."""
        if not keys:
            raise Misconfigured(f"no master key is configured; {KEY_HINT}")
        decoded = [_decode_key(key) for key in keys]
        return cls({_compute_key_id(key): key for key in decoded}, _compute_key_id(decoded[0]))

    @property
    def encryption_key_id(self) -> str:
        """The id of the key that encrypts."""
        return self._encryption_key_id

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of all configured keys. An id is a hash and reveals nothing about its key."""
        return tuple(self._keys)

    def encrypt(self, plain: str, *, table: str, row: str, column: str) -> str:
        """Encrypt a text for one table cell; each call returns a different ciphertext."""
        # Random for each text: two texts with one nonce under one key would break AES-GCM.
        nonce = os.urandom(NONCE_BYTES)
        cell = _associated_data(table=table, row=row, column=column)
        cipher = _cipher(self._keys[self._encryption_key_id])
        ciphertext = cipher.encrypt(nonce, _encode(plain), cell)
        payload = base64.urlsafe_b64encode(nonce + ciphertext).decode("ascii")
        return f"{ciphertext_prefix(self._encryption_key_id)}{payload}"

    def decrypt(self, encrypted: str, *, table: str, row: str, column: str) -> Secret:
        """Decrypt a text that was encrypted for this table cell.

        Raises: `UnknownMasterKey` when its key is not configured, `CorruptedSecret` when the value
        was changed, truncated or moved from another cell.
        """
        cell_name = f"the secret {column} of {table} {row!r}"
        key_id, payload = _split_encrypted(encrypted, cell_name)
        key = self._keys.get(key_id)
        if key is None:
            raise UnknownMasterKey(_unknown_key_message(cell_name, key_id, self.key_ids))
        cell = _associated_data(table=table, row=row, column=column)
        # As in `_cipher`.
        from cryptography.exceptions import InvalidTag

        try:
            plain = _cipher(key).decrypt(payload[:NONCE_BYTES], payload[NONCE_BYTES:], cell)
        # Wrong cell, changed text and wrong key give the same error; the key is identified by its ID.
        except InvalidTag:
            raise CorruptedSecret(_corrupted_message(cell_name)) from None
        return Secret(plain.decode("utf-8", "surrogatepass"))

    def __repr__(self) -> str:
        return f"SecretBox({', '.join(self._keys)})"

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "a SecretBox cannot be pickled; build one from the keys in the other process"
        )

    def __reduce__(self) -> NoReturn:
        self.__getstate__()


def load_secret_box(
    data_dir: Path, configured: str | None, *, embedded: bool, old: Sequence[str] = ()
) -> SecretBox:
    """Load the master keys of this installation.

    The first key comes from `configured` (MOSAICO_MASTER_KEY or its file). With the embedded
    database, and only then, it may come from `master.key` in the data directory, which is created
    once with mode 0600. `old` keys, and a `master.key` from before the variable was set, only
    decrypt.
    Raises: `Misconfigured`, `UnsafeSecretFile`.
    """
    path = data_dir / MASTER_KEY_FILE
    file_key = read_secret_file(path) if embedded else None
    if configured is not None and configured.strip():
        return SecretBox.from_keys([configured, *old, *([] if file_key is None else [file_key])])
    if not embedded:
        raise Misconfigured(
            "MOSAICO_MASTER_KEY is not set; with an external database all processes must share one"
            f" master key; {KEY_HINT} and set it for every process"
        )
    if file_key is None:
        new_key = base64.b64encode(secrets.token_bytes(MASTER_KEY_BYTES)).decode("ascii")
        # Returns the key in the file: another process may have created it first.
        file_key = create_secret_file(path, new_key)
    return SecretBox.from_keys([file_key, *old])


def require_random_key(key: str) -> None:
    """Raise `Misconfigured` for an invented key: a phrase, or bytes in a regular sequence."""
    key_bytes = _decode_key(key)
    steps = {(second - first) % 256 for first, second in pairwise(key_bytes)}
    if all(byte in PRINTABLE for byte in key_bytes) or len(steps) == 1:
        raise Misconfigured(f"the master key is not random; {KEY_HINT}")


def ciphertext_prefix(key_id: str) -> str:
    """The prefix of every text that this master key encrypted."""
    return f"{FORMAT}.{key_id}."


def _cipher(key: bytes) -> "AESGCM":
    # An API process encrypts and decrypts rarely, and the library takes 6 MiB. Its import takes 20 ms,
    # a cipher 5 µs.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _decode_key(text: str) -> bytes:
    # Both alphabets and missing padding are accepted: tools print keys in each of these forms.
    standard = text.strip().translate(str.maketrans("-_", "+/"))
    try:
        key = base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise Misconfigured(f"the master key is not base64; {KEY_HINT}") from None
    if len(key) != MASTER_KEY_BYTES:
        raise Misconfigured(
            f"the master key has {len(key)} bytes, not {MASTER_KEY_BYTES}; {KEY_HINT}"
        )
    if len(set(key)) < MIN_DISTINCT_BYTES:
        raise Misconfigured(f"the master key is not random; {KEY_HINT}")
    return key


def _compute_key_id(key: bytes) -> str:
    # With a prefix of its own, so that the id equals no other hash of the key.
    return hashlib.sha256(b"mosaico master key id\0" + key).hexdigest()[:8]


def _associated_data(*, table: str, row: str, column: str) -> bytes:
    # Only the row may contain a colon. The first and the last colon then delimit it, and no two
    # cells have the same associated data.
    if ":" in table or ":" in column:
        raise ValueError("names of tables and columns cannot contain a colon")
    return _encode(f"{table}:{row}:{column}")


def _split_encrypted(encrypted: str, cell_name: str) -> tuple[str, bytes]:
    version, _, remainder = encrypted.partition(".")
    key_id, _, encoded = remainder.partition(".")
    try:
        payload = base64.b64decode(encoded, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise CorruptedSecret(_corrupted_message(cell_name)) from None
    # base64 ignores the last bits of some texts; accept only the canonical encoding of a payload.
    canonical = base64.urlsafe_b64encode(payload).decode("ascii") == encoded
    if version != FORMAT or not canonical or len(payload) < NONCE_BYTES:
        raise CorruptedSecret(_corrupted_message(cell_name))
    return key_id, payload


def _corrupted_message(cell_name: str) -> str:
    return f"{cell_name} was changed or moved and cannot be decrypted; enter it again"


def _unknown_key_message(cell_name: str, key_id: str, key_ids: Sequence[str]) -> str:
    return (
        f"{cell_name} is encrypted with master key {key_id}, which is not configured (configured:"
        f" {', '.join(key_ids)}); add that key to MOSAICO_MASTER_KEYS_OLD (or restore"
        f" {MASTER_KEY_FILE} in the data directory), or enter the secret again"
    )


def _encode(text: str) -> bytes:
    # A UnicodeEncodeError would carry the secret in its arguments, and so into logs.
    return text.encode("utf-8", "surrogatepass")
