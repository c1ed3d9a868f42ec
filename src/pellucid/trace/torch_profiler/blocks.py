"""Pieces of a trace → what stands before its events, blocks of whole events, and what stands after them.

    {"schemaVersion": 1, …, "traceEvents": [ {"ph": "X", …}, {"ph": "s", …}, … ], "traceName": …}
    |---------- before ----------------------|---- block ----|---- block ----|------ after ------|

A block is cut where a `}`, a comma and a `{"ph":` or the like follow each other. Inside a JSON text a quote is written
with a backslash, so the seam cannot stand in a text; it can stand in a list of objects inside an event, and then the
block does not decode and is read event by event. Where the list of events ends only the decoder knows: it calls `end`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from pellucid.trace.timeline import Damage

EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
LIST = re.compile(rb"\s*\[")
SEAM = re.compile(rb'\}\s*,(?=\s*\{\s*"(?:ph|name|cat|ts|pid|tid|args)"\s*:)')
LOOK_BACK_BYTES = 1 << 15           # where the last seam of a block is: an event has a few hundred bytes
SHORT_LOOK_BYTES = 1 << 12          # where it usually is
LONGEST_EVENT_BYTES = 64 << 20      # chosen: what may be held while no seam comes, a fraction of the memory allowed
LONGEST_EDGE_BYTES = 64 << 20       # the same for what stands before and after the events


@dataclass(slots=True)
class Blocks:
    pieces: Iterator[bytes]
    damage: Damage
    before: bytes = b""
    after: bytes = b""
    bare: bool = False              # the file is a list of events, with nothing around it
    ended: bool = False
    final: bool = False             # no block comes after this one
    _have: bytes = b""              # read, and not yet in a block

    def start(self) -> bool:
        """Reads up to the first event; False where no list of events comes."""
        looked = 0
        for piece in self.pieces:
            self._have += piece
            if found := LIST.match(self._have) or EVENTS.search(self._have, looked):
                self.bare = found.re is LIST
                self.before = self._have[:found.start()]
                self._have = self._have[found.end():]
                return True
            looked = max(0, len(self._have) - 64)
            if len(self._have) > LONGEST_EDGE_BYTES:
                break
        self.before, self._have = self._have, b""
        return False

    def __iter__(self) -> Iterator[bytes]:
        """Lists of events as JSON, brackets and all. The last may be cut, or hold the end of the list and more."""
        piece = b""
        while True:
            if seam := _last_seam(piece) or _last_seam(self._have + piece, len(self._have)):
                end, start = seam
                before = self._have[:end] if end < 0 else self._have
                block = b"".join((b"[", before, memoryview(piece)[:max(0, end)], b"]"))
                self._have = self._have[start:] + piece if start < 0 else piece[start:]
                yield block
                if self.ended:
                    return
            else:
                self._have += piece
            if len(self._have) > LONGEST_EVENT_BYTES:
                self.damage.lost("an event is too long to be one")
                self._have = self._have[-LOOK_BACK_BYTES:]
            piece = next(self.pieces, b"")
            if not piece:
                break
        block, self._have, self.final = b"[%b]" % self._have, b"", True
        yield block

    def put_back(self, rest: bytes) -> None:
        """The last event of a block, cut at a seam inside it: it begins the next."""
        if rest:
            self._have = b"%b,%b" % (rest, self._have)

    def end(self, after: bytes) -> None:
        """The list of events ended in the last block; `after` is what the block holds behind it."""
        self.ended = True
        rest = [after, b"," if self._have else b"", self._have]     # the comma of the seam the block was cut at
        size = len(after) + len(self._have)
        for piece in self.pieces:
            if size < LONGEST_EDGE_BYTES:
                rest.append(piece)
                size += len(piece)
        self.after, self._have = b"".join(rest), b""


def _last_seam(text: bytes, offset: int = 0) -> tuple[int, int] | None:
    """(end of the last event that is whole, start of what follows its comma), counted from `offset`."""
    for look in (SHORT_LOOK_BYTES, LOOK_BACK_BYTES, len(text)):
        if seams := deque(SEAM.finditer(text, max(0, len(text) - look)), maxlen=1):
            return seams[0].start() + 1 - offset, seams[0].end() - offset
    return None
