"""Where a collection goes on after the pages that are stored, as one opaque text."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.traces.registry import CollectionFailed
from app.traces.sources.langfuse.payload import JSON
from app.traces.sources.langfuse.reader import ExperimentRun

# The cursor of a collection that has read nothing yet.
INITIAL_CURSOR: Final = '{"v":1}'
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionCursor:
    """`read` traces of this pass over the run are stored; `passes` came before it."""

    api: str
    run: ExperimentRun
    project_id: str | None
    as_of: datetime
    traces_read: int = 0
    completed_passes: int = 0
    remaining: JSON | None = None

    def encode(self) -> str:
        return json.dumps(
            {
                "v": VERSION,
                "api": self.api,
                "run": self.run.to_json(),
                "project": self.project_id,
                "asOf": self.as_of.isoformat(),
                "read": self.traces_read,
                "passes": self.completed_passes,
                "rest": self.remaining,
            },
            separators=(",", ":"),
        )


def parse_cursor(cursor: str | None) -> CollectionCursor | None:
    """The position that a cursor describes; None at the beginning.

    Raises: `CollectionFailed` for a cursor that this program did not write.
    """
    if cursor is None or cursor == INITIAL_CURSOR:
        return None
    try:
        document = _document(cursor)
        return CollectionCursor(
            api=document["api"],
            run=ExperimentRun.from_json(document["run"]),
            project_id=document["project"],
            as_of=datetime.fromisoformat(document["asOf"]),
            traces_read=int(document["read"]),
            completed_passes=int(document["passes"]),
            remaining=document["rest"],
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
