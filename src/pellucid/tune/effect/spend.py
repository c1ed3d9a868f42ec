"""How much error each candidate of a session may use, so that all of them together stay within one promise.

    candidate   1        2        3        …       level = total · 6 / (π² · number²), which adds up to total
    level       0.0061   0.0015   0.0007           for total = 0.01

The number counts candidates in the order tried, through the whole session: it goes on after a keep and after a resume,
and a candidate that is tried anew on new pairs takes a new number. More pairs for the same trial cost nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

SESSION_ERROR: Final = 0.01     # chosen: of a hundred sessions in which nothing is better, at most one keeps anything


@dataclass(frozen=True, slots=True)
class Spend:
    """The error of one candidate: the chance of a false `better`, and as much again of a false `worse`.

    Levels add up because Σ 1/k² = π²/6; by the union bound no dependence between trials matters.
    """

    number: int                     # of the candidate in its session, from 1
    total: float = SESSION_ERROR    # of the session

    @property
    def level(self) -> float:
        return self.total * 6 / (math.pi**2 * self.number**2)
