"""The health of a dataset in a terminal: a row for each finding, and sentences."""

from collections.abc import Iterator
from typing import Final

from mosaico.core.console.table import JSON, field, format_cell
from mosaico.core.text import count_noun

FINDING_COLUMNS: Final = (field("finding"), field("items", "item"), field("detail"), field("do"))


def list_findings(health: JSON) -> list[JSON]:
    """The items of each list, the most urgent list first."""
    return [
        {"finding": finding, "items": items, "detail": detail, "do": remedy}
        for finding, items, detail, remedy in _iter_findings(health)
    ]


def _iter_findings(health: JSON) -> Iterator[tuple[str, str, str, str]]:
    for same in health["contradictingItems"]:
        yield "contradiction", ", ".join(same["itemIds"]), same["input"], "edit the wrong one"
    for row in health["wrongExpectations"]:
        people = count_noun(row["annotators"], "annotator")
        answer = f": {row['correctedAnswer']}" if row["correctedAnswer"] else ""
        yield "expected answer is wrong", row["itemId"], f"{people}{answer}", "edit it"
    for item in health["flippingItems"]:
        detail = f"{count_noun(item['flips'], 'flip')} in {count_noun(item['pairs'], 'pair')}"
        yield "flips without a change", item["itemId"], detail, "make it plain, or retire it"
    for item in health["constantItems"]:
        runs = f"in {count_noun(item['runs'], 'run')} of {count_noun(item['agents'], 'agent')}"
        if item["isRight"]:
            yield "always right", item["itemId"], runs, "retire it where others ask the like"
        else:
            yield "always wrong", item["itemId"], runs, "check its expected answer"
    for same in health["duplicateItems"]:
        yield "duplicate", ", ".join(same["itemIds"]), same["input"], "retire one"


def describe_health(health: JSON) -> Iterator[str]:
    """What was read, what is not listed, and what a smaller drop needs."""
    if health["isCut"]:
        yield "There are more items than were read."
    if health["reason"]:
        yield f"Values are not judged: {format_cell(health['reason'])}."
        return
    yield (
        f"{format_cell(health['metric'])} in {count_noun(health['runs'], 'run')} of"
        f" {count_noun(health['agents'], 'agent')}: {health['constantWrong']} always wrong,"
        f" {health['constantRight']} always right (in five runs or more), {health['flipping']} with flips."
    )
    if health["unrecordedPairs"]:
        yield (
            f"Of {health['unrecordedPairs']} of {health['unchangedPairs']} pairs of runs the traces name neither model nor"
            " prompt: the agent counts as unchanged."
        )
    yield format_cell(health["detectable"]["explanation"])
    for size in health["detectable"]["needed"]:
        needed = " or ".join(
            count_noun(size[name], noun)
            for name, noun in (("itemsNeeded", "item"), ("trialsNeeded", "trial"))
            if size[name]
        )
        yield f"A drop of {size['drop']:g} needs {needed or 'several runs on each side, because whole runs vary'}."
