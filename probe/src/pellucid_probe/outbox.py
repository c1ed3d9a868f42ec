"""What the hooks have to say, until a thread of ours packs it and puts it into the ring.

    hook ── put(pack, values) ──▶ queue ──▶ flush(): each of pack(values) goes into the ring

Packing in the hook costs several times as much: between two steps the engine evicts our code and data from the caches,
and a record packed after another one finds them warm. A hook therefore only appends. If the thread cannot keep up, the
hook flushes itself. Records keep their order. A killed process loses what waited here, a few hundredths of a second.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Iterable, Tuple

from pellucid_probe.ring import Record, RingWriter

FULL = 512    # waiting records above which a hook flushes itself

Pack = Callable[[Any], "Iterable[Record]"]


class Outbox:
    def __init__(self, ring: RingWriter) -> None:
        self.ring = ring
        self.cost_ns = 0
        self.errors_count = 0
        self._waiting: Deque[Tuple[Pack, Any]] = deque()
        self._lock = threading.Lock()

    def put(self, pack: Pack, values: Any) -> None:
        """`values` must not change afterwards."""
        self._waiting.append((pack, values))
        if len(self._waiting) > FULL:
            self.flush()

    def flush(self) -> bool:
        """Whether anything waited. Does nothing while another thread is at it."""
        if not self._waiting or not self._lock.acquire(False):
            return False
        start = time.thread_time_ns()    # CPU time: waiting for the interpreter lock costs nobody anything
        try:
            while self._waiting:
                pack, values = self._waiting.popleft()
                try:
                    for kind, payload in pack(values):
                        self.ring.write(kind, payload)
                except Exception:     # one record that cannot be packed must not stop the others
                    self.errors_count += 1
        finally:
            self._lock.release()
            self.cost_ns += time.thread_time_ns() - start
        return True

    def silence(self) -> None:
        """Forgets what waits and takes nothing more."""
        self._waiting = deque(maxlen=0)


def one(kind: int, pack: Callable[[Any], bytes]) -> Pack:
    """For what becomes a single record."""
    return lambda values: ((kind, pack(values)),)
