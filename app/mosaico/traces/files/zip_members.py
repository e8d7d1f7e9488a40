"""JSON documents in a ZIP archive, read within the limits of the file.

Their members may be compressed with Zstandard, which the standard library of Python 3.11 cannot read; the extra
`inspect` can.
"""

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import IO, Any, Final, NamedTuple

from mosaico.core.extras import describe_missing
from mosaico.traces.files.limited_file import LimitedFile

STORED, DEFLATED, ZSTANDARD = 0, 8, 93
# The ZIP header of a member: 30 bytes, then its name and its extra field, both of variable length.
LOCAL_HEADER_BYTES: Final = 30
NAME_LENGTH_OFFSET: Final = 26


class MemberDocument(NamedTuple):
    """The value of a member, and its size unpacked."""

    value: Any
    size_bytes: int


def open_archive(file: LimitedFile) -> zipfile.ZipFile:
    """The directory of an archive. Raises: `InvalidImport`."""
    try:
        return zipfile.ZipFile(file.open())
    except zipfile.BadZipFile as error:
        file.reject(f"not a complete ZIP archive: {error}; the evaluation may still be running")


def read_members(file: LimitedFile, members: Iterable[zipfile.ZipInfo]) -> Iterator[Any]:
    """The values of members, one in memory at a time. Raises: `InvalidImport`, also beyond a limit."""
    members = [*members]
    # What the directory says, before minutes of unpacking; then what was unpacked, because it may lie.
    file.require_all_unpacked(sum(member.file_size for member in members))
    unpacked_bytes = 0
    for member in members:
        document = read_member(file, member)
        unpacked_bytes += document.size_bytes
        file.require_all_unpacked(unpacked_bytes)
        yield document.value


def read_member(file: LimitedFile, member: zipfile.ZipInfo) -> MemberDocument:
    """The value of a member. Raises: `InvalidImport`, also beyond a limit."""
    content = _unpack_member(file, member)
    file.require_few_values(content, member.filename)
    try:
        return MemberDocument(json.loads(content), len(content))
    except RecursionError:
        file.reject(f"{member.filename} is nested too deep; write it flatter")
    except ValueError as error:
        file.reject(f"{member.filename} is not valid JSON: {error}")


def _unpack_member(file: LimitedFile, member: zipfile.ZipInfo) -> bytes:
    """The content of a member. The directory comes from `zipfile`, the content is read here."""
    file.require_unpacked(member.file_size, member.filename)
    raw = file.open()
    raw.seek(member.header_offset)
    header = raw.read(LOCAL_HEADER_BYTES)
    if len(header) < LOCAL_HEADER_BYTES:
        file.reject(f"{member.filename} is not in the archive; it is damaged")
    name_bytes, extra_bytes = struct.unpack_from("<HH", header, NAME_LENGTH_OFFSET)
    raw.seek(name_bytes + extra_bytes, os.SEEK_CUR)
    limit = file.options.limits.part_bytes
    # A packed member is hardly larger than its content; the directory may say anything.
    content = _unpack(file, member, raw.read(min(member.compress_size, 2 * limit)), limit)
    file.require_unpacked(len(content), member.filename)
    return content


def _unpack(file: LimitedFile, member: zipfile.ZipInfo, packed: bytes, limit: int) -> bytes:
    """At most one byte more than the limit."""
    method = member.compress_type
    if method == STORED:
        return packed[: limit + 1]
    if method == DEFLATED:
        return _unpack_deflated(file, member, packed, limit)
    if method == ZSTANDARD:
        return _unpack_zstandard(file, member, BytesIO(packed), limit)
    return file.reject(f"{member.filename} has the unknown compression method {method}")


def _unpack_deflated(
    file: LimitedFile, member: zipfile.ZipInfo, packed: bytes, limit: int
) -> bytes:
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, limit + 1)
    except zlib.error as error:
        file.reject(f"{member.filename} cannot be unpacked: {error}")


def _unpack_zstandard(
    file: LimitedFile, member: zipfile.ZipInfo, packed: IO[bytes], limit: int
) -> bytes:
    # zstandard is an extra, which few need.
    try:
        import zstandard
    except ModuleNotFoundError:
        file.reject(describe_missing("inspect", ".eval logs"))
    decompressor = zstandard.ZstdDecompressor(max_window_size=limit)
    try:
        # Inspect writes large samples as several frames; only the first is read by default.
        with decompressor.stream_reader(packed, read_across_frames=True) as reader:
            return bytes(reader.read(limit + 1))
    except zstandard.ZstdError as error:
        file.reject(f"{member.filename} cannot be unpacked: {error}")
