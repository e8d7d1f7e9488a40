"""Opens the SDK client of OpenAI."""

import openai

from app.llm.retry import ATTEMPT_TIMEOUT_S
from app.llm.sdk import ProviderAccess


def open_openai(access: ProviderAccess, timeout_s: float = ATTEMPT_TIMEOUT_S) -> openai.AsyncOpenAI:
    """A client without credentials of the environment, unless it calls OpenAI itself.

    The SDK reads `OPENAI_ORG_ID`, `OPENAI_PROJECT_ID` and `OPENAI_ADMIN_KEY`, and would send them to
    any base URL.
    """
    client = openai.AsyncOpenAI(**access.options(timeout_s))
    if access.base_url is not None:
        # Not as arguments: the SDK replaces None by the variable.
        client.organization = client.project = client.admin_api_key = None
    return client
