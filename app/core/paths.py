"""Default data directory."""

import os
from pathlib import Path

import platformdirs


def default_data_dir() -> Path:
    """`/var/lib/mosaico` for root, otherwise the user data directory of the platform."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/mosaico")
    return Path(platformdirs.user_data_dir("mosaico"))
