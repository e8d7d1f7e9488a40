"""Where a collection goes on after the pages that are stored, as one opaque text."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.traces.registry import CollectionFailed
from app.traces.sources.langfuse.payload import JSON
from app.traces.sources.langfuse.reader import FoundRun

# The cursor of a collection that has read nothing yet.
START: Final = '{"v":1}'
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """`read` traces of this pass over the run are stored; `passes` came before it."""

    api: str
    run: FoundRun
    project_id: str | None
    as_of: datetime
    read: int = 0
    passes: int = 0
    rest: JSON | None = None

    def text(self) -> str:
        return json.dumps(
            {
                "v": VERSION,
                "api": self.api,
                "run": self.run.document(),
                "project": self.project_id,
                "asOf": self.as_of.isoformat(),
                "read": self.read,
                "passes": self.passes,
                "rest": self.rest,
            },
            separators=(",", ":"),
        )


def read_position(cursor: str | None) -> Position | None:
    """The position that a cursor describes; None at the beginning.

    Raises: `CollectionFailed` for a cursor that this program did not write.
    """
    if cursor is None or cursor == START:
        return None
    try:
        document = _document(cursor)
        return Position(
            api=document["api"],
            run=FoundRun.read(document["run"]),
            project_id=document["project"],
            as_of=datetime.fromisoformat(document["asOf"]),
            read=int(document["read"]),
            passes=int(document["passes"]),
            rest=document["rest"],
        )
    except (ValueError, KeyError, TypeError):
        raise CollectionFailed(
            "the collection was begun by another version of this program; retry the run"
        ) from None


def _document(cursor: str) -> JSON:
    document: JSON = json.loads(cursor)
    if document["v"] != VERSION:
        raise ValueError(document["v"])
    return document
