"""Where there are very many rows about blocks, those of one hash in 2, 4, … are written, and stand for the others.

Of a hash that is written all rows are, so what is told of the written ones holds for all.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.core.units import S_NS

ROWS_A_MINUTE = 12_000      # chosen: with more, every second hash is left out, then three of four, and so on
MINUTE_NS = 60 * S_NS


@dataclass(slots=True)
class Pace:
    every: int = 1          # a row stands for so many
    _minute_ns: int = 0
    _rows: int = 0

    def keeps(self, block_hash: bytes, now_ns: int) -> bool:
        """Whether a row about this hash is written. Counts it, so asked once a row."""
        if int.from_bytes(block_hash[:4], "little") % self.every:
            return False
        self._rows += 1
        if now_ns - self._minute_ns >= MINUTE_NS:
            self._minute_ns, self._rows = now_ns, 1
        elif self._rows > ROWS_A_MINUTE:
            self.every *= 2
            self._minute_ns, self._rows = now_ns, 1
        return True
