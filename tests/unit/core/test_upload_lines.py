"""The lines of an upload: numbered, without blank ones, whatever the size of the blocks."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.core.errors import TooLarge
from mosaico.core.web import uploads
from mosaico.core.web.uploads import iter_lines


def test_iter_lines__numbers_count_blank_lines() -> None:
    body = b"\n  \r\na\r\n\n b \nc"
    assert list(iter_lines(io.BytesIO(body))) == [(3, b"a\r"), (5, b" b "), (6, b"c")]
    assert list(iter_lines(io.BytesIO(b""))) == []


@given(
    st.lists(st.sampled_from([b"", b" ", b"a", b"bcd", b"\r", b"0123456789"])), st.integers(1, 9)
)
def test_iter_lines__blocks_do_not_matter(lines: list[bytes], block_bytes: int) -> None:
    expected = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uploads, "BLOCK_BYTES", block_bytes)
        assert list(iter_lines(io.BytesIO(b"\n".join(lines)))) == expected


def test_iter_lines__long_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "LINE_BYTES", 10)
    assert list(iter_lines(io.BytesIO(b"x" * 10))) == [(1, b"x" * 10)]
    with pytest.raises(TooLarge, match="line 2 is longer"):
        list(iter_lines(io.BytesIO(b"a\n" + b"x" * 11)))
