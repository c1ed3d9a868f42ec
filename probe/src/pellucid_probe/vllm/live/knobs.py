"""Kinds of live settings: what may be written, and how it is read and shown.

    Whole(scheduler, "max_num_active_reqs", 1, 16, changes).take(4)      4
    ….take(17)     Refused: "a whole number from 1 to 16", not 17
"""

from __future__ import annotations

from typing import Any, Iterable, List, Optional

from pellucid_probe.control import Knob, Refused
from pellucid_probe.vllm.live.changes import StepChanges

MOST_TASKS, MOST_LETTERS = 64, 64
Changes = Optional[StepChanges]     # None: nobody reads the value twice, so it is written at once


class Attribute(Knob):
    """An attribute of one of the engine's objects. Raises AttributeError where it does not have it."""

    def __init__(self, owner: Any, attribute: str, changes: Changes) -> None:
        getattr(owner, attribute)
        self.owner, self.attribute, self.changes = owner, attribute, changes

    def read(self) -> Any:
        if self.changes is None:
            return getattr(self.owner, self.attribute)
        return self.changes.read(self.owner, self.attribute)

    def write(self, value: Any) -> None:
        if self.changes is None:
            setattr(self.owner, self.attribute, value)
        else:
            self.changes.put(self.owner, self.attribute, value)

    def refuse(self, asked: Any) -> Refused:
        return Refused(f"must be {self.bound()}, not {str(asked)[:80]!r}")


class Whole(Attribute):
    """A whole number within bounds; `off` names a value beside them, such as 0 or None, that switches it off."""

    def __init__(self, owner: Any, attribute: str, least: int, most: int, changes: Changes, *off: Any) -> None:
        super().__init__(owner, attribute, changes)
        self.least, self.most, self.off = least, most, off

    def take(self, asked: Any) -> Any:
        if any(asked is off or (type(asked) is int and asked == off) for off in self.off):
            return asked
        if type(asked) is not int or not self.least <= asked <= self.most:     # bool is an int, and no number of ours
            raise self.refuse(asked)
        return asked

    def bound(self) -> str:
        off = "".join(f", or {'null' if value is None else value} for none" for value in self.off)
        return f"a whole number from {self.least} to {self.most}{off}"


class Switch(Attribute):
    def take(self, asked: Any) -> Any:
        if type(asked) is not bool:
            raise self.refuse(asked)
        return asked

    def bound(self) -> str:
        return "true or false"


class BlockShare(Attribute):
    """Asked for as a share of `blocks_count`, kept by the engine as a number of blocks, rounded down as it does."""

    def __init__(self, owner: Any, attribute: str, blocks_count: int, changes: Changes) -> None:
        super().__init__(owner, attribute, changes)
        self.blocks_count = blocks_count

    def take(self, asked: Any) -> Any:
        if type(asked) not in (int, float) or not 0 <= asked < 1:
            raise self.refuse(asked)
        return int(asked * self.blocks_count)

    def shown(self, value: Any) -> Any:
        return value / self.blocks_count

    def bound(self) -> str:
        return "a share from 0 to below 1"


class DraftTable(Attribute):
    """Draft tokens by batch size: [[1, 8, 4], [9, 128, 0]]. The engine has a list with one entry for each size.

    Only lengths that were there at the start: shapes are captured for these.
    """

    def __init__(self, owner: Any, attribute: str, changes: Changes) -> None:
        super().__init__(owner, attribute, changes)
        table = getattr(owner, attribute)
        self.most = len(table) - 1
        self.lengths: List[int] = sorted({table[size] for size in range(1, len(table))})

    def take(self, asked: Any) -> Any:
        table: List[int] = [0]
        if not isinstance(asked, list) or not asked:
            raise self.refuse(asked)
        for row in asked:
            if not (isinstance(row, list) and len(row) == 3 and all(type(n) is int for n in row)):
                raise self.refuse(asked)
            low, high, length = row
            if low != len(table) or not low <= high <= self.most or length not in self.lengths:
                raise self.refuse(asked)
            table += [length] * (high - low + 1)
        if len(table) != self.most + 1:
            raise self.refuse(asked)
        return table

    def shown(self, value: Any) -> Any:
        rows: List[List[int]] = []
        for size, length in enumerate(value):
            if size and rows and rows[-1][2] == length:
                rows[-1][1] = size
            elif size:
                rows.append([size, size, length])
        return rows

    def bound(self) -> str:
        return f"rows [from, to, draft tokens] that cover batches of 1 to {self.most}, with {self.lengths} draft tokens"


class Tasks(Attribute):
    """Names of tasks, as clients send them."""

    def take(self, asked: Any) -> Any:
        if not isinstance(asked, list) or len(asked) > MOST_TASKS or not all(_is_task(name) for name in asked):
            raise self.refuse(asked)
        return frozenset(asked)

    def shown(self, value: Iterable[str]) -> Any:
        return sorted(value)

    def bound(self) -> str:
        return f"at most {MOST_TASKS} names of tasks, each with 1 to {MOST_LETTERS} letters"


def _is_task(name: Any) -> bool:
    return isinstance(name, str) and 1 <= len(name) <= MOST_LETTERS
