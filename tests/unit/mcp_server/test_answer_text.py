"""The text of an answer has what its document has."""

from mosaico.mcp_server.answers import (
    ChangedValue,
    CountedText,
    RunLine,
    Why,
    document_of,
    text_of,
)

RUN = RunLine(
    run="r-1", agent="bot", benchmark="nightly", status="COMPLETED", created_at="now", page="/r"
)
WHY = Why(
    summary="It fell.",
    run=RUN,
    decides=[ChangedValue(name="quality", before=0.95, after=0.0, gate=False)],
    errors=[CountedText(text="x" * 200, count=3)],
    notices=["2 more items"],
)


def test_text__names_every_field_and_no_missing_one() -> None:
    text = text_of(WHY)
    assert "- name: quality; gate: no; before: 0.95; after: 0" in text
    # A long element has a field per line.
    assert f"- text: {'x' * 200}\n  count: 3" in text
    assert "run:\n  run: r-1" in text
    assert "notices:\n- 2 more items" in text
    assert not any(word in text for word in ("None", "null", "page: \n", "items:", "low"))


def test_document__leaves_out_what_is_missing() -> None:
    document = document_of(WHY)
    assert document["decides"] == [{"name": "quality", "gate": False, "before": 0.95, "after": 0.0}]
    assert "explanation" not in document
