"""Scripts of the scripted model: what it runs on each task of a dataset."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from app.core.console.input_files import InvalidInput, open_input
from app.core.errors import AppError
from app.core.strict_json import parse_json
from app.harness.bash.dataset import bounded_lines
from app.harness.bash.types import EvalTask
from app.llm.scripted import Script, ScriptedLlm


def open_script(path: Path, tasks: Iterable[EvalTask]) -> ScriptedLlm:
    """The model that plays a file of `{"id": TASK, "turns": [["COMMANDS"]], "answer": TEXT}`.

    One task a line; every inner list is a turn. Raises: UnreadableInput, InvalidInput.
    """
    with open_input(path) as file:
        return read_script(bounded_lines(file), tasks, name=str(path))


def read_script(lines: Iterable[bytes], tasks: Iterable[EvalTask], *, name: str) -> ScriptedLlm:
    """The same from lines; `name` is what errors call them. Raises: InvalidInput."""
    by_id: dict[str, Script] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            _add(by_id, name, number, line)
    known = {task.prompt: by_id[task.id] for task in tasks if task.id in by_id}
    return ScriptedLlm(Path(name).stem, known)


def _add(scripts: dict[str, Script], path: str, number: int, line: bytes) -> None:
    try:
        value = parse_json(line)
        scripts[value["id"]] = _script(value)
    except (AppError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{path}:{number}: this is no script: {error}",
            hint='write {"id": "a-task", "turns": [["echo one"], ["echo two"]]}',
        ) from None


def _script(value: Mapping[str, Any]) -> Script:
    turns = value["turns"]
    if not all(isinstance(each, str) for turn in turns for each in turn):
        raise TypeError("turns must be lists of texts")
    return Script(
        turns=tuple(tuple(turn) for turn in turns), answer=str(value.get("answer", "Done."))
    )
