"""Scripted models of `ot-bench` that fail or wait."""

import asyncio

from mosaico.llm.conversation import (
    Turn,
)
from mosaico.llm.errors import LlmError
from tests.support.mcp_bench import (
    Request,
    ScriptedModel,
    calls,
)


def failing(failure: LlmError, *, after: int = 0) -> ScriptedModel:
    def play(request: Request) -> Turn:
        if len(request.messages) > after:
            raise failure
        return calls(("echo", {"text": "x"}))

    return ScriptedModel(play)


class Asleep(ScriptedModel):
    """Never answers; records whether its request was cancelled."""

    is_cancelled = False

    async def turn(self, *_: object) -> Turn:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        raise AssertionError
