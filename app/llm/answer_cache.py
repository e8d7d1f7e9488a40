"""LLM cache in a folder: answers of models by request key, one file each."""

import base64
import json
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from app.llm.types import MAX_ANSWER_AGE, ChatAnswer, EmbeddingAnswer, ModelAnswer

FOLDER_MODE = 0o700


class AnswerCache:
    """Answers that are at most 30 days old; `now` is in seconds since the epoch.

    Several processes may use one folder. A file that cannot be read is not an answer.
    """

    def __init__(self, folder: Path, now: float) -> None:
        self._folder = folder
        self._oldest = now - MAX_ANSWER_AGE.total_seconds()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, ModelAnswer]:
        """The stored answers by request key."""
        answers = ((key, self._read(self._path(key))) for key in keys)
        return {key: answer for key, answer in answers if answer is not None}

    def put(self, answers: Mapping[bytes, ModelAnswer]) -> None:
        """Store answers. A refusal is not stored."""
        for key, answer in answers.items():
            document = _document(answer)
            if document is not None:
                _write(self._path(key), document)

    def evict(self, keys: Sequence[bytes]) -> None:
        """Delete answers."""
        for key in keys:
            self._path(key).unlink(missing_ok=True)

    def evict_expired(self) -> None:
        """Delete the answers that are too old."""
        for path in self._folder.glob("*/*.json"):
            if self._is_expired(path):
                path.unlink(missing_ok=True)

    def _path(self, key: bytes) -> Path:
        name = key.hex()
        # Folders of a hundred thousand files are slow to list on some file systems.
        return self._folder / name[:2] / f"{name}.json"

    def _read(self, path: Path) -> ModelAnswer | None:
        try:
            return None if self._is_expired(path) else _answer(json.loads(path.read_bytes()))
        # A file of another version of the format is a miss, and is overwritten.
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _is_expired(self, path: Path) -> bool:
        try:
            return path.stat().st_mtime < self._oldest
        except FileNotFoundError:  # deleted by another process
            return True


def _document(answer: ModelAnswer) -> dict[str, str] | None:
    if isinstance(answer, EmbeddingAnswer):
        return {"vector": base64.b64encode(answer.vector.tobytes()).decode()}
    return None if answer.content is None else {"content": answer.content}


def _answer(document: Any) -> ModelAnswer:
    if "content" in document:
        return ChatAnswer(content=str(document["content"]))
    vector = array("f", base64.b64decode(document["vector"], validate=True))
    if not vector:
        raise ValueError("an empty vector")
    return EmbeddingAnswer(vector)


def _write(path: Path, document: Mapping[str, str]) -> None:
    # Answers quote the texts of users: other users of the machine must not read them.
    path.parent.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    path.parent.mkdir(exist_ok=True, mode=FOLDER_MODE)
    # Written beside the target and renamed: another process, or a crash, never sees half a file.
    with NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        json.dump(document, file)
    Path(file.name).replace(path)
