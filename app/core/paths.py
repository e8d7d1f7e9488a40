"""Where MOSAICO keeps its data when nobody says otherwise."""

import os
from pathlib import Path

import platformdirs


def default_data_dir() -> Path:
    """`/var/lib/mosaico` for root, else the user's data folder of the platform."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/mosaico")
    return Path(platformdirs.user_data_dir("mosaico"))
