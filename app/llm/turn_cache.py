"""Cache of model turns in a folder, so that an equal request is paid for once."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from pydantic import TypeAdapter, ValidationError

from app.llm.conversation import ChatMessage, Llm, Tool, Turn, TurnSettings
from app.llm.errors import LlmError

_TURN: Final = TypeAdapter(Turn)


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
            **asdict(settings),
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
        cached_turn = _read(path)
        if cached_turn is not None:
            return cached_turn
        if self._only_cached:
            raise LlmError("the turn is not in the cache, and no request is allowed")
        turn = await self._llm.turn(system, messages, tools)
        _write(path, turn)
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


def _read(path: Path) -> Turn | None:
    try:
        return _TURN.validate_json(path.read_bytes())
    # A file of another version of the format is a miss, and is overwritten.
    except (FileNotFoundError, ValidationError):
        return None


def _write(path: Path, turn: Turn) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written beside the target and renamed: a concurrent trial, or a crash, never sees half a file.
    with NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
        file.write(_TURN.dump_json(turn))
    Path(file.name).replace(path)
