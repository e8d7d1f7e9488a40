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

MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million input and output tokens."""

    input_usd: float
    output_usd: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / MILLION


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
    """The price of a model in a file `{"MODEL": {"input": 1.0, "output": 5.0}}`; None if absent.

    Raises: UnreadableInput, InvalidInput.
    """
    table = read_object(path)
    entry = table.get(model)
    return None if entry is None else _price(str(path), model, entry)


def _price(source: str, model: str, value: Any) -> Price:
    try:
        return Price(input_usd=_dollars(value["input"]), output_usd=_dollars(value["output"]))
    except (KeyError, TypeError, ValueError):
        raise InvalidInput(
            f"{source}: the price of {model} is not two numbers",
            hint='write {"MODEL": {"input": 1.0, "output": 5.0}}, in US dollars per million tokens',
        ) from None


def _dollars(value: Any) -> float:
    # json.loads accepts NaN and Infinity, which would make a limit in dollars ineffective.
    if not is_number(value) or not 0 <= value < math.inf:
        raise ValueError(value)
    return float(value)
