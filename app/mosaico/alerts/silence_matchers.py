"""The matchers of a silence, as stored JSON and in the REST API."""

from fnmatch import fnmatchcase
from typing import Protocol

from pydantic import Field

from mosaico.core.schemas import Identifier, ShortText, WireModel
from mosaico.notifications.types import MessageSeverity


class MatchedAlert(Protocol):
    """The fields of an alert that a silence matches."""

    @property
    def rule_id(self) -> str | None: ...
    @property
    def name(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def benchmark_id(self) -> str: ...
    @property
    def agent_id(self) -> str: ...


class SilenceMatchers(WireModel):
    """Selects the alerts that a silence holds back: all given fields must match."""

    alert_config_id: Identifier | None = None
    benchmark_id: Identifier | None = None
    agent_id: Identifier | None = None
    severity: MessageSeverity | None = None
    name: ShortText | None = Field(
        default=None, description="Glob pattern of the rule name, such as nightly-*."
    )

    @property
    def is_empty(self) -> bool:
        return self == SilenceMatchers()

    def match(self, alert: MatchedAlert) -> bool:
        """Return whether a silence with these matchers holds back an alert."""
        fields = (
            (self.alert_config_id, alert.rule_id),
            (self.benchmark_id, alert.benchmark_id),
            (self.agent_id, alert.agent_id),
            (self.severity, alert.severity),
        )
        is_named = self.name is None or fnmatchcase(alert.name, self.name)
        return is_named and all(matcher in (None, field) for matcher, field in fields)
