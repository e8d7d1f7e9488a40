"""What a process holds while it runs; built by entry points, handed down as one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.core.clock import Clock, utc_now
from app.core.db import Database
from app.core.secrets import SecretBox


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """`options` are the operator's defaults that a domain may ask for, by name."""

    db: Database
    secrets: SecretBox
    data_dir: Path
    clock: Clock = utc_now
    options: Mapping[str, str] = field(default_factory=dict)
