"""Minifies the style sheets and scripts of a folder: short names, no comments and spaces.

`python -I minified_assets.py FOLDER` prints them as JSON, by name; where there is no minifier, as they were written. It
runs in a process of its own, because the minifier brings the runtime of Go (9 MB), and imports nothing of the service,
because the build of the wheel runs it, too.
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

MEDIA_TYPES = {".css": "text/css", ".js": "application/javascript"}


def minify_folder(folder: Path) -> dict[str, str]:
    """The minified text of each style sheet and script, by the name of its file."""
    return {
        path.name: minify_text(path.read_text("utf-8"), MEDIA_TYPES[path.suffix])
        for path in sorted(folder.iterdir())
        if path.suffix in MEDIA_TYPES
    }


def minify_text(text: str, media_type: str) -> str:
    """The minified text of a style sheet or script."""
    if find_spec("minify") is None:
        return text
    # Some platforms have no wheel of it.
    import minify

    if media_type == MEDIA_TYPES[".js"]:
        # The minifier keeps the names at the top of a script, which others may read. A module has a scope of its own,
        # and so has a block.
        text = f"{{{text}}}"
    return str(minify.string(media_type, text))


if __name__ == "__main__":
    json.dump(minify_folder(Path(sys.argv[1])), sys.stdout)
