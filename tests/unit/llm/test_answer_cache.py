"""LLM cache in a folder: what is stored, what is too old, what is no answer."""

import os
from array import array
from pathlib import Path

from mosaico.llm.folder_cache import AnswerCache
from mosaico.llm.types import ChatAnswer, EmbeddingAnswer

NOW = 1_000_000_000.0
DAY = 86_400
KEY, OTHER = b"\x01" * 32, b"\x02" * 32


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_folder__answers_are_read_back_and_refusals_are_not_stored(tmp_path: Path) -> None:
    folder = AnswerCache(tmp_path / "llm", 0.0)
    vector = EmbeddingAnswer(array("f", [0.5, -1.0]))
    folder.put({KEY: ChatAnswer(content="ja\N{SNOWMAN}"), OTHER: vector})
    assert folder.get([KEY, OTHER]) == {KEY: ChatAnswer(content="ja\N{SNOWMAN}"), OTHER: vector}
    refused = b"\x03" * 32
    folder.put({refused: ChatAnswer(content=None, refusal="no")})
    assert folder.get([refused]) == {}
    assert (tmp_path / "llm").stat().st_mode & 0o777 == 0o700
    folder.evict([KEY, refused])
    assert list(folder.get([KEY, OTHER])) == [OTHER]


def test_folder__answer_of_31_days_ago_is_none_and_is_deleted(tmp_path: Path) -> None:
    folder = AnswerCache(tmp_path, NOW)
    folder.put({KEY: ChatAnswer(content="old"), OTHER: ChatAnswer(content="new")})
    old, new = files(tmp_path)
    os.utime(old, (NOW - 31 * DAY,) * 2)
    os.utime(new, (NOW - 29 * DAY,) * 2)
    assert list(folder.get([KEY, OTHER])) == [OTHER]
    folder.evict_expired()
    assert files(tmp_path) == [new]


def test_folder__damaged_file_is_no_answer(tmp_path: Path) -> None:
    folder = AnswerCache(tmp_path, 0.0)
    folder.put({KEY: ChatAnswer(content="yes")})
    [path] = files(tmp_path)
    for text in ("", "[]", '{"vector": "!"}', '{"other": 1}', "\xff"):
        path.write_text(text, encoding="latin-1")
        assert folder.get([KEY]) == {}
    folder.put({KEY: ChatAnswer(content="again")})
    assert folder.get([KEY]) == {KEY: ChatAnswer(content="again")}
