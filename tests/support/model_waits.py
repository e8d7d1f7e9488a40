"""Waits of a client of models that take no time."""


class FakeSleep:
    """Records the waits; its clock advances by them only."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def clock(self) -> float:
        return sum(self.seconds)
