"""n faithful outputs out of walks: how many are asked for at a time, and which are taken.

Whoever asks takes the accepted walks in the order in which they were asked for, and asks for more. Walks beyond the last output are
dropped, as they must be: which of them are accepted depends on their outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from .wish import MODES

__all__ = ["MAX_OUTPUTS", "Rounds", "max_walks"]

#: The most outputs of one request.
MAX_OUTPUTS = 16_384

#: The most walks of one request to the engine.
ROUND = 512


def max_walks(n: int) -> int:
    """How many walks are tried for n outputs where nothing else is said."""
    return 1000 + 100 * n


@dataclass
class Rounds:
    """The walks for n outputs. In the modes with weights each walk is an output, unless it comes to a dead end, whose weight is 0."""

    n: int
    limit: int
    mode: str = "cars"
    walks: int = 0
    accepted: list[Any] = field(default_factory=list)
    #: Walks and accepted ones of the last round.
    _last: tuple[int, int] = (0, 0)

    @staticmethod
    def of(n: Any, walks: Any, mode: Any) -> Rounds:
        """Raises `ValueError` with what is wrong."""
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MAX_OUTPUTS:
            raise ValueError(f"`n` is {n!r}: ask for 1 to {MAX_OUTPUTS} outputs")
        if mode not in MODES:
            raise ValueError(f"the mode is {mode!r}: take one of {', '.join(MODES)}")
        limit = max_walks(n) if walks is None else walks
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"`walks` is {walks!r}, and no number of sequences")
        return Rounds(n, limit, mode)

    def next(self) -> int:
        """How many walks to ask for now; 0: there are enough outputs, or the limit is reached."""
        if self.mode in ("weights", "twist"):
            return max(0, min(self.n - self.walks, ROUND, self.limit - self.walks))
        missing = self.n - len(self.accepted)
        if missing <= 0:
            return 0
        walks, accepted = self._last if self.mode == "cars" else (self.walks, len(self.accepted))
        ask = math.ceil(missing * (walks + 1) / (accepted + 1))
        if self.mode == "cars":
            # Each round is accepted more often than the one before, which it has learned from.
            ask = min(ask, missing + max(missing, 8))
        return max(0, min(ask, ROUND, self.limit - self.walks))

    def add(self, walks: list[Any | None]) -> None:
        """The walks of a round, in the order in which they were asked for; None for a rejected one."""
        accepted = [walk for walk in walks if walk is not None]
        self.walks += len(walks)
        self.accepted += accepted
        self._last = (len(walks), len(accepted))

    def is_short(self) -> bool:
        """Whether outputs are missing after the last round."""
        return not self.accepted if self.mode in ("weights", "twist") else len(self.accepted) < self.n

    def outputs(self) -> list[Any]:
        return self.accepted[: self.n]
