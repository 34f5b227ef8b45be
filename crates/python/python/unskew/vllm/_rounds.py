"""n faithful outputs out of walks: how many are asked for, which are taken, and the estimate without a server that tells one.

The client and the endpoint do the same: they ask for walks, take the accepted ones in the order in which they were asked for, and
ask for more. Walks beyond the last output are dropped, as they must be: which of them are accepted depends on their outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

#: The most walks of one request to the engine.
ROUND = 512


def max_walks(n: int) -> int:
    """How many walks are tried for n outputs where nothing else is said."""
    return 1000 + 100 * n


@dataclass
class Rounds:
    """The walks for n outputs."""

    n: int
    limit: int
    walks: int = 0
    accepted: list[Any] = field(default_factory=list)

    def next(self) -> int:
        """How many walks to ask for now; 0: there are enough outputs, or the limit is reached."""
        missing = self.n - len(self.accepted)
        if missing <= 0:
            return 0
        share = (len(self.accepted) + 1) / (self.walks + 1)
        return max(0, min(math.ceil(missing / share), ROUND, self.limit - self.walks))

    def add(self, walk: Any | None) -> None:
        """The next walk, in the order in which they were asked for; None for a rejected one."""
        self.walks += 1
        if walk is not None:
            self.accepted.append(walk)

    def outputs(self) -> list[Any]:
        return self.accepted[: self.n]


def estimate(ids: list[Any], log_probs: list[float]) -> tuple[float, float] | None:
    """The logarithm of P(constraint) and its relative error, from outputs of an exact sampler alone: the model's mass of the
    distinct outputs of the first half, over their share of the second half. None where no output comes twice."""
    half = len(ids) // 2
    known = dict(zip(ids[:half], log_probs[:half]))
    rest = ids[half:]
    seen = sum(id in known for id in rest)
    if not seen:
        return None
    greatest = max(known.values())
    log_mass = greatest + math.log(sum(math.exp(log_p - greatest) for log_p in known.values()))
    share = seen / len(rest)
    # For the error, outputs that have not come yet are counted too.
    new = (len(rest) - seen + 1) / (len(rest) + 2)
    return log_mass - math.log(share), math.sqrt(new / ((1 - new) * len(rest)))
