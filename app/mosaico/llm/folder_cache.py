"""Caches of models in a folder, one file each: answers to metrics by request key, and turns of agents by the complete request."""

import base64
import hashlib
import json
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from mosaico.core.defaults import KEEP_LLM_ANSWERS
from mosaico.llm.conversation import ChatMessage, Llm, Tool, Turn, TurnSettings
from mosaico.llm.errors import LlmError
from mosaico.llm.types import ChatAnswer, EmbeddingAnswer, ModelAnswer

FOLDER_MODE: Final = 0o700
_TURN: Final = TypeAdapter(Turn)


class AnswerCache:
    """Answers that are at most `KEEP_LLM_ANSWERS` old; `now` is in seconds since the epoch.

    Several processes may use one folder. A file that cannot be read is not an answer.
    """

    def __init__(self, folder: Path, now: float) -> None:
        self._folder = folder
        self._oldest = now - KEEP_LLM_ANSWERS.total_seconds()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, ModelAnswer]:
        """The stored answers by request key."""
        answers = ((key, self._read(self._path(key))) for key in keys)
        return {key: answer for key, answer in answers if answer is not None}

    def put(self, answers: Mapping[bytes, ModelAnswer]) -> None:
        """Store answers. A refusal is not stored."""
        for key, answer in answers.items():
            document = _document(answer)
            if document is not None:
                _write(self._path(key), json.dumps(document).encode())

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCache:
    """The cache of a run: its folder, and whether a turn that is not in it may be requested."""

    folder: Path
    only_cached: bool = False

    def wrap(
        self, llm: Llm, settings: TurnSettings, *, base_url: str | None, trial: int = 0
    ) -> "CachedLlm":
        """The model with this cache. A judge has no trial: equal texts get one score."""
        return CachedLlm(
            llm,
            self.folder,
            settings,
            server=server_host(base_url),
            trial=trial,
            only_cached=self.only_cached,
        )


def server_host(base_url: str | None) -> str | None:
    """Host and port without credentials; None means the server of the provider."""
    return None if base_url is None else urlsplit(base_url).netloc.rpartition("@")[2]


class CachedLlm:
    """A model whose turns are cached by the complete request.

    `server` is its host and port, None for the provider's own: two servers may use one name for
    different models. `trial` separates the trials of a task. With `only_cached` no request is
    sent, and a turn that is not in the cache is an error.
    """

    def __init__(
        self,
        llm: Llm,
        folder: Path,
        settings: TurnSettings,
        *,
        server: str | None,
        trial: int,
        only_cached: bool,
    ) -> None:
        self._llm = llm
        self._folder = folder
        self._key_fields = {
            **settings.conditions(),
            "provider": llm.provider,
            "server": server,
            # Without it every trial of a task would get the answer of the first one, and the
            # variance would be 0.
            "trial": trial,
        }
        self._only_cached = only_cached

    @property
    def provider(self) -> str:
        return self._llm.provider

    @property
    def model(self) -> str:
        return self._llm.model

    async def turn(
        self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool]
    ) -> Turn:
        """The cached turn, or a new one. Raises: LlmError."""
        path = self._folder / f"{self._key(system, messages, tools)}.json"
        cached_turn = _read_turn(path)
        if cached_turn is not None:
            return cached_turn
        if self._only_cached:
            raise LlmError("the turn is not in the cache, and no request is allowed")
        turn = await self._llm.turn(system, messages, tools)
        _write(path, _TURN.dump_json(turn))
        return turn

    async def close(self) -> None:
        await self._llm.close()

    def _key(self, system: str, messages: Sequence[ChatMessage], tools: Sequence[Tool]) -> str:
        document = {
            **self._key_fields,
            "model": self.model,
            "system": system,
            "messages": [asdict(message) for message in messages],
            "tools": [asdict(tool) for tool in tools],
        }
        # Sorted, so that the key does not depend on the order in which a tool's schema was built.
        text = json.dumps(document, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _read_turn(path: Path) -> Turn | None:
    try:
        return _TURN.validate_json(path.read_bytes())
    # A file of another version of the format is a miss, and is overwritten.
    except (FileNotFoundError, ValidationError):
        return None


def _write(path: Path, content: bytes) -> None:
    # Answers quote the texts of users: other users of the machine must not read them.
    path.parent.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    path.parent.mkdir(exist_ok=True, mode=FOLDER_MODE)
    # Written beside the target and renamed: another process, or a crash, never sees half a file.
    with NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)
