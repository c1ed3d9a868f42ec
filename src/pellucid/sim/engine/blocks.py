"""KV blocks: who holds them, which contents can be found again, and which goes next.

    pool = Pool(count=4, caching=True)
    held = pool.take(2)
    pool.name(held[0], key)            its contents can be found under `key`
    pool.release(held)                 the last block of a request goes first; blocks without a name before all others
    pool.find([key])                   [held[0]]

Blocks nobody holds are kept in one order: at the front is what is taken next, and loses its contents. Contents may be
in several blocks, when requests computed the same at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence


class Pool:
    def __init__(self, count: int, caching: bool) -> None:
        self.count, self.caching = count, caching
        self._order: OrderedDict[int, None] = OrderedDict.fromkeys(range(count))     # free, the next one first
        self._holders = [0] * count
        self._key: list[Hashable | None] = [None] * count
        self._found: dict[Hashable, list[int]] = {}

    @property
    def free_count(self) -> int:
        return len(self._order)

    def find(self, keys: Iterable[Hashable]) -> list[int]:
        """Blocks with these contents, from the first on, as far as they are there."""
        blocks = []
        for key in keys:
            here = self._found.get(key)
            if here is None:
                break
            blocks.append(here[0])
        return blocks

    def idle_count(self, blocks: Sequence[int]) -> int:
        """How many of them nobody holds: to hold them takes as many from what is free."""
        return sum(not self._holders[block] for block in blocks)

    def hold(self, blocks: Sequence[int]) -> None:
        for block in blocks:
            if not self._holders[block]:
                del self._order[block]
            self._holders[block] += 1

    def take(self, count: int) -> list[int]:
        """New blocks. Raises KeyError where there are not as many: whoever takes has asked before."""
        taken = []
        for _ in range(count):
            block, _ = self._order.popitem(last=False)
            self._holders[block] = 1
            self._forget(block)
            taken.append(block)
        return taken

    def name(self, block: int, key: Hashable) -> None:
        if self.caching and self._key[block] is None:
            self._key[block] = key
            self._found.setdefault(key, []).append(block)

    def release(self, blocks: Sequence[int]) -> None:
        """Of one request, in its order."""
        nameless = []
        for block in reversed(blocks):
            self._holders[block] -= 1
            if self._holders[block]:
                continue
            if self._key[block] is None:
                nameless.append(block)
            else:
                self._order[block] = None
        for block in reversed(nameless):
            self._order[block] = None
            self._order.move_to_end(block, last=False)

    def _forget(self, block: int) -> None:
        key = self._key[block]
        if key is None:
            return
        self._key[block] = None
        here = self._found[key]
        if len(here) == 1:
            del self._found[key]
        else:
            here.remove(block)
