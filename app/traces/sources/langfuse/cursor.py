"""The cursor of a collection: where reading resumes after the stored pages, as opaque text."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.traces.registry import CollectionFailed
from app.traces.sources.langfuse.json_fields import JSON
from app.traces.sources.langfuse.reader import ExperimentRun

# The cursor of a collection that has read nothing yet.
INITIAL_CURSOR: Final = '{"v":1}'
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionCursor:
    """A position in the reading of one run.

    `traces_read` counts the stored traces of the current pass over the run, `completed_passes` the
    passes before it. `remaining` is the unread part in the format of the reader of `api`; None at
    the start of a pass. `as_of` is when the run was looked up.
    """

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
                "tracesRead": self.traces_read,
                "completedPasses": self.completed_passes,
                "remaining": self.remaining,
            },
            separators=(",", ":"),
        )


def parse_cursor(cursor: str | None) -> CollectionCursor | None:
    """Parse a cursor; None at the start of a collection.

    Raises: `CollectionFailed` for a cursor of another version of this program.
    """
    if cursor is None or cursor == INITIAL_CURSOR:
        return None
    try:
        document = _parse_document(cursor)
        return CollectionCursor(
            api=document["api"],
            run=ExperimentRun.from_json(document["run"]),
            project_id=document["project"],
            as_of=datetime.fromisoformat(document["asOf"]),
            traces_read=int(document["tracesRead"]),
            completed_passes=int(document["completedPasses"]),
            remaining=document["remaining"],
        )
    except (ValueError, KeyError, TypeError):
        raise CollectionFailed(
            "the collection was started by another version of this program; retry the run"
        ) from None


def _parse_document(cursor: str) -> JSON:
    document: JSON = json.loads(cursor)
    if document["v"] != VERSION:
        raise ValueError(document["v"])
    return document
