"""What a text for people must say, in whatever words."""


def assert_names(text: str, *facts: str) -> None:
    """Each fact, a number, a name or a command, stands in the text."""
    assert [fact for fact in facts if fact not in text] == [], text
