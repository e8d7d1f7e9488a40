"""The items of a dataset, kept on disk while a run is read: there may be many, and they are long."""

import json
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

JSON = dict[str, Any]


class ItemSpool:
    """Items by id, in a file of its own that nobody else sees and that ends with it."""

    def __init__(self) -> None:
        # An empty name is a private database on disk; its readers may be in other threads.
        self._database = sqlite3.connect("", check_same_thread=False)
        self._turn = threading.Lock()
        self._database.execute("CREATE TABLE items (id TEXT PRIMARY KEY, item TEXT)")

    def add(self, items: Iterable[Mapping[str, Any]]) -> None:
        rows = [
            (str(item["id"]), json.dumps({"expectedOutput": item.get("expectedOutput")}))
            for item in items
        ]
        with self._turn:
            self._database.executemany("INSERT OR REPLACE INTO items VALUES (?, ?)", rows)

    def find(self, ids: Sequence[str]) -> dict[str, JSON]:
        """Those of the items that there are."""
        found: dict[str, JSON] = {}
        with self._turn:
            for item_id in ids:
                row = self._database.execute("SELECT item FROM items WHERE id = ?", (item_id,))
                for (item,) in row:
                    found[item_id] = json.loads(item)
        return found

    def close(self) -> None:
        self._database.close()
