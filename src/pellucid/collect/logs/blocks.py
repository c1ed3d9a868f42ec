"""Lines of several processes, mixed → single lines and whole tracebacks, in the order in which they began.

A logged traceback is many lines of one process, level and source line; a bare one is what follows "Traceback". In both,
the lines of other processes may stand between. A block ends with the first line of its process that is not of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pellucid.collect.logs.line import Line

TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
BEGINS_BARE = re.compile(r"Traceback \(most recent call last\)|^Exception ignored in")
GOES_ON = re.compile(r"^$|^\s|^Traceback |^The above exception |^During handling of |^[+|]")
EXCEPTION = re.compile(
    r"^\s*\|?\s*((?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception|Interrupt|Exit|Timeout|Failure))(?:: (.*)|:?)$"
)
MOST_KEPT = 400       # lines of a block that are looked at


@dataclass(slots=True)
class Block:
    head: Line
    logged: bool                                          # its lines have a level and a place
    lines: list[Line] = field(default_factory=list)       # the head too
    count: int = 0
    traced: bool = False                                  # "Traceback" has been seen
    ended: bool = False                                   # a bare one: its exception has been seen

    def add(self, line: Line) -> None:
        self.count += 1
        self.traced = self.traced or bool(TRACEBACK.search(line.text))
        self.ended = bool(EXCEPTION.match(line.text))
        if len(self.lines) < MOST_KEPT or self.ended:
            self.lines.append(line)

    def exceptions(self) -> list[tuple[Line, str, str]]:
        """Line, type and message of each, outermost last."""
        found = ((line, EXCEPTION.match(line.text)) for line in self.lines)
        return [(line, m[1].rsplit(".", 1)[-1], m[2] or "") for line, m in found if m]


@dataclass(slots=True)
class Blocks:
    _open: dict[str | None, Block] = field(default_factory=dict)

    def take(self, line: Line) -> Iterator[Block]:
        """Blocks that ended with this line, and the line if it stands alone."""
        block = self._open.get(line.process)
        if block is None and line.process is None and line.level is None and line.stamp is None:
            # Lines of a traceback that have no prefix although its first line has one.
            block = next((b for b in reversed(self._open.values()) if not b.logged), None)
        if block is not None and _belongs(block, line):
            block.add(line)
            return
        if block is not None:
            yield self._open.pop(block.head.process)
        single = Block(line, line.level in ("error", "critical"))
        single.add(line)
        if single.logged or BEGINS_BARE.search(line.text):
            self._open[line.process] = single
        else:
            yield single

    def end(self) -> Iterator[Block]:
        yield from self._open.values()
        self._open = {}


def _belongs(block: Block, line: Line) -> bool:
    if block.logged and line.level is not None:
        same = line.level == block.head.level and line.place == block.head.place
        return same and (block.traced or bool(GOES_ON.match(line.text)))
    if line.level is not None or line.stamp is not None:
        return False
    if block.ended and not block.logged:
        return bool(re.match(r"^The above exception |^During handling of |^$", line.text))
    return bool(GOES_ON.match(line.text) or EXCEPTION.match(line.text)) and (block.traced or not block.logged)
