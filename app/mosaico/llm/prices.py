"""Token prices, from a table of the user because prices change often."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaico.core.console.files import InvalidInput, read_object
from mosaico.core.errors import BadUsage
from mosaico.core.strict_json import is_number
from mosaico.llm.conversation import Usage

MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million input and output tokens.

    Input tokens that were read from the cache of the provider, or written to it, have their own
    prices; without them they cost as much as other input, which is too much for reads.
    """

    input_usd: float
    output_usd: float
    cached_input_usd: float | None = None
    cache_write_usd: float | None = None

    def of(self, usage: Usage) -> float:
        """The cost of a request in US dollars."""
        cached_usd = self.input_usd if self.cached_input_usd is None else self.cached_input_usd
        write_usd = self.input_usd if self.cache_write_usd is None else self.cache_write_usd
        plain_tokens = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        dollars = (
            plain_tokens * self.input_usd
            + usage.cached_tokens * cached_usd
            + usage.cache_write_tokens * write_usd
            + usage.output_tokens * self.output_usd
        )
        return dollars / MILLION


class NoPrice(BadUsage):
    """A limit in dollars requires a price; add the model to the table of prices."""

    def __init__(self, model: str) -> None:
        entry = json.dumps({model: {"input": 1.0, "output": 5.0}})
        super().__init__(
            f"a limit in dollars requires the price of {model}",
            hint=f"add --prices FILE with {entry}, in US dollars per million tokens",
        )


def parse_prices(table: Mapping[str, Any]) -> dict[str, Price]:
    """The prices of a table. Raises: InvalidInput."""
    return {model: _price("prices", model, entry) for model, entry in table.items()}


def read_price(path: Path, model: str) -> Price | None:
    """The price of a model in a file `{"MODEL": {"input": 1.0, "output": 5.0}}`; None if absent. Optional are
    `cached_input` and `cache_write`.

    Raises: UnreadableInput, InvalidInput.
    """
    table = read_object(path)
    entry = table.get(model)
    return None if entry is None else _price(str(path), model, entry)


def _price(source: str, model: str, value: Any) -> Price:
    try:
        return Price(
            input_usd=_dollars(value["input"]),
            output_usd=_dollars(value["output"]),
            cached_input_usd=_optional_dollars(value.get("cached_input")),
            cache_write_usd=_optional_dollars(value.get("cache_write")),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidInput(
            f"{source}: the price of {model} is not made of numbers",
            hint='write {"MODEL": {"input": 1.0, "output": 5.0}}, in US dollars per million tokens;'
            " cached_input and cache_write are the prices of cached input",
        ) from None


def _optional_dollars(value: Any) -> float | None:
    return None if value is None else _dollars(value)


def _dollars(value: Any) -> float:
    # json.loads accepts NaN and Infinity, which would make a limit in dollars ineffective.
    if not is_number(value) or not 0 <= value < math.inf:
        raise ValueError(value)
    return float(value)
