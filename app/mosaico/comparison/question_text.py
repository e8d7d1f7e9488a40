"""The sentences about the two questions of a verdict: did exactly these tasks change, and would others; pure."""

from collections.abc import Sequence

from mosaico.comparison.change_text import format_amount
from mosaico.core.text import capitalized, count_noun, shorten
from mosaico.kpis.verdict_types import ChangedTasks, QuestionAnswer
from mosaico.statistics.verdict_rules import About, Answer, ChangeVerdict, Scale, Side

# Names of tasks that are stored, and those in a sentence.
_MAX_NAMES, _SHOWN_NAMES, _NAME_CHARS = 20, 5, 40


def stored_answer(answer: Answer) -> QuestionAnswer:
    """The answer to one question as it is stored with a verdict."""
    return QuestionAnswer(
        about=answer.about,
        low=answer.low,
        high=answer.high,
        p=answer.p,
        min_detectable_effect=answer.mde,
        min_detectable_tasks=answer.broken_items,
    )


def changed_tasks(change: ChangeVerdict) -> ChangedTasks | None:
    """The tasks that changed by themselves, with the first names; None without any."""
    tasks = change.tasks
    if tasks is None or not (tasks.fell or tasks.rose or tasks.beyond_chance):
        return None
    worse_tasks = tasks.rose if change.side is Side.HIGH else tasks.fell
    return ChangedTasks(
        tasks=tasks.items,
        fell=len(tasks.fell),
        rose=len(tasks.rose),
        beyond_chance=len(tasks.beyond_chance),
        names=worse_tasks[:_MAX_NAMES],
        beyond_chance_names=tasks.beyond_chance[:_MAX_NAMES],
    )


def broken_tasks(tasks: ChangedTasks | None) -> str:
    """The tasks that broke or were repaired, in a few words: "4 of 10 tasks fell from always to never"; empty for none."""
    if tasks is None:
        return ""
    parts = [
        (tasks.fell, "fell from always to never"),
        (tasks.rose, "rose from never to always"),
    ]
    phrases = [(count, words) for count, words in parts if count]
    if not phrases:
        return ""
    (count, words), *further_phrases = phrases
    text = f"{count} of {count_noun(tasks.tasks, 'task')} {words}"
    return ", ".join([text, *(f"{count} {words}" for count, words in further_phrases)])


def describe_tasks(change: ChangeVerdict) -> str:
    """The tasks that changed by themselves, with their names."""
    tasks = changed_tasks(change)
    if tasks is None:
        return ""
    sentences = []
    if phrase := broken_tasks(tasks):
        total = tasks.rose if change.side is Side.HIGH else tasks.fell
        sentences.append(f"{phrase}{_names(tasks.names, total)}.")
    if tasks.beyond_chance:
        changed = (
            f"{count_noun(tasks.beyond_chance, 'task')} changed beyond chance by the trials of"
        )
        owner = "its own" if tasks.beyond_chance == 1 else "each one"
        sentences.append(
            f"{changed} {owner}{_names(tasks.beyond_chance_names, tasks.beyond_chance)}."
        )
    return " ".join(sentences)


def _names(names: Sequence[str], count: int) -> str:
    if not names:
        return ""
    shown = [shorten(name, _NAME_CHARS) for name in names[:_SHOWN_NAMES]]
    more = f", and {count - len(shown)} more" if count > len(shown) else ""
    return f" ({', '.join(shown)}{more})"


def second_answer(change: ChangeVerdict) -> Answer | None:
    """The answer to the question that does not decide, where a reader needs it: when the verdict is about these tasks
    only, or when the answers differ.
    """
    if not change.effect or len(change.answers) < len(About):
        return None
    [answer] = [answer for answer in change.answers if answer.about is not change.about]
    if answer.low is None or answer.high is None or answer.p is None or change.p is None:
        return None
    is_same = (answer.p < change.alpha) is (change.p < change.alpha)
    return None if is_same and change.about is About.POPULATION else answer


def describe_second_answer(change: ChangeVerdict, scale: Scale) -> list[str]:
    """The answer to the question that does not decide."""
    answer = second_answer(change)
    if answer is None or answer.low is None or answer.high is None or answer.p is None:
        return []
    interval = f"{format_amount(answer.low, scale)} to {format_amount(answer.high, scale)}"
    explains = "could explain" if answer.p >= change.alpha else "does not explain"
    phrase = capitalized(answer.about.phrase)
    return [f"{phrase} chance alone {explains} the change (95 % CI {interval})."]


def describe_detectable(effect: float, broken: int | None, scale: Scale | None) -> str:
    """The change that is found in four of five runs: "a change of 0.240, or of 3 tasks from always to never,"."""
    change = f"a change of {format_amount(effect, scale)}"
    return (
        f"{change}, or of {count_noun(broken, 'task')} from always to never," if broken else change
    )
