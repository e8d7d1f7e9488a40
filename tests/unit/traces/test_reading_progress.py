"""The progress of commands that read large files."""

from mosaico.traces.files.options import ReadingProgress, join_reading_lines


def test_reading_progress__is_silent_at_first_then_a_line_every_ten_seconds() -> None:
    lines: list[str] = []
    now_s = 0.0
    progress = ReadingProgress(lines.append, lambda: now_s)
    # 1,000 results a second for 26 s: lines at 5 s, 15 s and 25 s.
    for count in range(1, 26_001):
        now_s = count / 1_000
        progress("big.csv", count)
    assert lines == [
        "big.csv: 5,000 results read",
        "big.csv: 15,000 results read",
        "big.csv: 25,000 results read",
    ]


def test_reading_progress__of_a_small_file_is_nothing() -> None:
    lines: list[str] = []
    progress = ReadingProgress(lines.append, lambda: 0.0)
    for count in range(1, 1_001):
        progress("small.csv", count)
    assert lines == []


def test_reading_lines__are_at_most_four() -> None:
    few = ["a.csv: CSV table", "a.csv: columns that are not used: x", "items 3 paired"]
    assert join_reading_lines(few) == few
    many = [*few[:2], "b.json: JSON table", "b.json: items are numbered", "items 3 paired"]
    assert join_reading_lines(many) == [
        "a.csv: CSV table; columns that are not used: x",
        "b.json: JSON table; items are numbered",
        "items 3 paired",
    ]
