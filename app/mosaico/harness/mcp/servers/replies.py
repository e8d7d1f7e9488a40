"""Replies to the requests of a server, as the benchmark file configures them.

A capability without a configured reply is not declared: the server must not ask then, and the SDK
refuses it if it does. No request waits for a person.
"""

from typing import Final, TypedDict

import mcp_types
from mcp.client.session import ClientRequestContext, ElicitationFnT, SamplingFnT

from mosaico.harness.mcp.config import AcceptedReply, SampledReply, ServerBase

DECLINED_BY_USER: Final = -1  # MCP specification, sampling, "Error handling"
REPLYING_MODEL: Final = "ot-bench"


class ReplyCallbacks(TypedDict, total=False):
    """The callbacks of a session of the SDK; a missing one declares no capability."""

    elicitation_callback: ElicitationFnT
    sampling_callback: SamplingFnT


def reply_callbacks(config: ServerBase) -> ReplyCallbacks:
    """The callbacks for the configured replies."""
    callbacks: ReplyCallbacks = {}
    elicitation, sampling = config.elicitation, config.sampling
    if elicitation is not None:

        async def answer(
            context: ClientRequestContext,  # noqa: ARG001 - the SDK passes it by position or name
            params: mcp_types.ElicitRequestParams,
        ) -> mcp_types.ElicitResult:
            if not isinstance(elicitation, AcceptedReply):
                return mcp_types.ElicitResult(action=elicitation)
            if isinstance(params, mcp_types.ElicitRequestURLParams):
                return mcp_types.ElicitResult(action="decline")
            return mcp_types.ElicitResult(action="accept", content=elicitation.accept)

        callbacks["elicitation_callback"] = answer
    if sampling is not None:

        async def sample(
            context: ClientRequestContext,  # noqa: ARG001
            params: mcp_types.CreateMessageRequestParams,  # noqa: ARG001
        ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
            if not isinstance(sampling, SampledReply):
                return mcp_types.ErrorData(code=DECLINED_BY_USER, message="declined")
            return mcp_types.CreateMessageResult(
                role="assistant",
                content=mcp_types.TextContent(text=sampling.text),
                model=REPLYING_MODEL,
                stop_reason="endTurn",
            )

        callbacks["sampling_callback"] = sample
    return callbacks
