"""No secret is left in what an ot-bench run writes."""

from dataclasses import asdict

from mosaico.core.masking import secret_masker
from mosaico.harness.mcp.secrets import mask_result
from mosaico.harness.mcp.types import (
    AttemptError,
    Content,
    ContentKind,
    ErrorKind,
    Evaluation,
    McpToolCall,
)
from mosaico.llm.conversation import (
    ChatMessage,
    MessageRole,
    Provider,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    WireMessage,
)
from tests.support.mcp_results import result

SECRET = "sekret-of-mine"


def test_mask_result__masks_every_text() -> None:
    """Each of the fourteen places that can repeat a secret has it once."""
    use = ToolUseBlock(id="1", name="t", input={"deep": [SECRET]}, flaw=SECRET)
    blocks = (
        TextBlock(text=SECRET),
        ThinkingBlock(text=SECRET),
        use,
        ToolResultBlock(tool_use_id="1", content=SECRET),
    )
    wire = WireMessage(provider=Provider.OPENAI, items=({"content": [{"text": SECRET}]},))
    call = McpToolCall(
        server="s",
        tool="t",
        arguments={"q": SECRET},
        text=SECRET,
        is_error=False,
        duration_ms=1.0,
        content=(Content(kind=ContentKind.TEXT, text=SECRET),),
    )
    attempt = result(
        error=AttemptError(kind=ErrorKind.PROVIDER, detail=SECRET),
        response=SECRET,
        evaluations=(
            Evaluation(type="a", passed=True, reason=SECRET, expected=SECRET, actual=SECRET),
        ),
        tool_calls=(call,),
        messages=(ChatMessage(role=MessageRole.ASSISTANT, content=blocks, wire=wire),),
    )
    masked = str(asdict(mask_result(attempt, secret_masker([SECRET]))))
    assert SECRET not in masked
    # The count fails when a new text field is not masked, or when the test does not fill it.
    assert masked.count("***") == str(asdict(attempt)).count(SECRET) == 14


def test_mask_result__without_secrets_changes_nothing() -> None:
    assert mask_result(result(), secret_masker([])) == result()
