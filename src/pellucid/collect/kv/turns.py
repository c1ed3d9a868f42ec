"""Which request goes on where another one ended: its prompt begins with the other's prompt and answer.

    request 1    prompt |0|1|2|, answer |3|4|.       remembered by 4, its last whole block
    request 2    prompt |0|1|2|3|4|5|6|              follows 1

A block's hash covers all tokens before it, so one hash tells that a whole conversation is the same. The answer has to
fill the block that its prompt began: below that, nothing tells a next turn from another question behind the same
prompt. A request is followed by one other; who comes later begins a conversation of its own.
"""

from __future__ import annotations

from pellucid.collect.kv.asked import Asked
from pellucid.collect.kv.remembered import Remembered

REMEMBERED = 100_000      # requests that ended: hours at 10 a second


class Turns:
    def __init__(self) -> None:
        self._ends: Remembered[bytes, int] = Remembered(REMEMBERED)

    def ended(self, request: int, asked: Asked) -> None:
        """What it said is known by now."""
        if len(asked.hashes) > asked.prompt_blocks:
            self._ends[asked.hashes[-1]] = request

    def followed_by(self, asked: Asked) -> int | None:
        """The request that this one goes on from: the latest turn, which reaches furthest into the prompt."""
        for block_hash in reversed(asked.hashes[:asked.prompt_blocks]):
            if (request := self._ends.get(block_hash)) is not None:
                self._ends.forget(block_hash)
                return request
        return None
