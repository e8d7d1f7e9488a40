"""Agents as they come over the wire: both spellings, and a secret that does not print."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mosaico.agents.schemas import AgentCreate, AgentPatch
from mosaico.core.schemas import changed_fields

WIRE = ("ProjectName", "PublicKey", "SecretKey")


# The original system misspells its fields, and its clients send them so.
@pytest.mark.parametrize("prefix", ["langfuse", "llangfuse"])
def test_agent_body__both_spellings_are_accepted(prefix: str) -> None:
    body = AgentPatch.model_validate({f"{prefix}{name}": "value" for name in WIRE})
    assert set(changed_fields(body)) == {
        "langfuse_project_name",
        "langfuse_public_key",
        "langfuse_secret_key",
    }
    assert AgentPatch.model_validate({f"{prefix}Url": "http://x.org"}).langfuse_url


def test_agent_body__secret_is_not_printed() -> None:
    body = AgentCreate.model_validate({"name": "x", "langfuseSecretKey": "sk-never"})
    assert "sk-never" not in f"{body!r} {body} {body.model_dump()} {body.model_dump_json()}"


@pytest.mark.parametrize(
    # A URL is shown to everybody, so a password in it would be, too.
    "url",
    ["", "x", "ftp://x.org", "javascript:1", "http://", "http://u:p@x.org", "http://u@x.org"],
)
def test_agent_body__url_must_be_plain_http(url: str) -> None:
    with pytest.raises(ValidationError) as caught:
        AgentPatch.model_validate({"langfuseUrl": url})
    assert caught.value.error_count() == 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ),
    st.sampled_from(["id", "name", "description", "langfuseUrl", "langfuseSecretKey", "archived"]),
)
def test_agent_body__any_value_is_parsed_or_rejected(value: Any, name: str) -> None:
    with contextlib.suppress(ValidationError):
        body = AgentCreate.model_validate({"name": "x", name: value})
        assert 1 <= len(body.name) <= 200
