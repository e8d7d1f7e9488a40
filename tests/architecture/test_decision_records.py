"""Decision records have one form, and name each other in both directions."""

import re
from pathlib import Path

import pytest

DECISIONS = Path(__file__).resolve().parents[2] / "docs" / "decisions"
RECORDS = {path.name[:4]: path for path in sorted(DECISIONS.glob("[0-9]*.md"))}
HEADER = re.compile(
    r"# (?P<number>\d{4}) \S.*\n"
    r"\n"
    r"Status: (accepted|(?P<relation>changed by|replaced by) (?P<later>.+?))(  )?\n"
    r"(Changes: (?P<changes>.+?)(  )?\n)?"
    r"(Replaces: (?P<replaces>.+?)(  )?\n)?"
    r"\n"
)
LINK = re.compile(r"\[(\d{4})\]\((\d{4}-[a-z0-9-]+\.md)\)")
# The line of a record that names the earlier one, for each status of the earlier one.
ANSWERS = {"changed by": "changes", "replaced by": "replaces"}


def parse_header(number: str) -> dict[str, str]:
    match = HEADER.match(RECORDS[number].read_text())
    assert match, (
        f"{RECORDS[number].name} does not start with '# NNNN title', an empty line and 'Status: accepted'"
        " (or 'changed by' or 'replaced by' and links); see docs/decisions/README.md"
    )
    return {name: text or "" for name, text in match.groupdict().items()}


def linked_numbers(text: str) -> set[str]:
    """The numbers of the linked records; every link has the name of its file."""
    for number, name in LINK.findall(text):
        assert RECORDS.get(number) == DECISIONS / name, f"[{number}]({name}) is no record"
    return {number for number, _ in LINK.findall(text)}


@pytest.mark.parametrize("number", RECORDS)
def test_record__has_its_parts(number: str) -> None:
    text = RECORDS[number].read_text()

    assert parse_header(number)["number"] == number
    for part in ("**Decision", "**Why", "\nEnforced by: "):
        assert part in text, f"{RECORDS[number].name} has no {part.strip()!r}"


@pytest.mark.parametrize("number", RECORDS)
def test_record__names_what_it_changes_and_is_named_by_it(number: str) -> None:
    header = parse_header(number)

    for later in linked_numbers(header["later"]):
        answer = ANSWERS[header["relation"]]
        assert number < later
        assert number in linked_numbers(parse_header(later)[answer]), f"{later} does not say so"
    for relation, answer in ANSWERS.items():
        for earlier in linked_numbers(header[answer]):
            earlier_header = parse_header(earlier)
            assert earlier_header["relation"] == relation, f"the status of {earlier} is another"
            assert number in linked_numbers(earlier_header["later"]), (
                f"{earlier} does not name {number}"
            )


def test_index__names_each_record_once_with_its_title() -> None:
    index = (DECISIONS / "README.md").read_text()
    titles = {
        number: path.read_text().splitlines()[0].removeprefix(f"# {number} ")
        for number, path in RECORDS.items()
    }

    lines = re.findall(r"^- \[(\d{4})\]\(\S+\) (.+)$", index, flags=re.MULTILINE)

    assert linked_numbers(index) == {*RECORDS}
    assert sorted(lines) == sorted(titles.items())
