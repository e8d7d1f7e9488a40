"""Vectors of texts, and how near they are."""

import math
from collections.abc import Sequence
from operator import mul

from app.metrics.types import JudgeError


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors of one length, in [-1, 1].

    Raises: `JudgeError` for a vector without a direction.
    """
    length = math.hypot(*one) * math.hypot(*other)
    if not length:
        raise JudgeError("the model answered with a vector of zeros")
    return min(1.0, max(-1.0, math.fsum(map(mul, one, other)) / length))
