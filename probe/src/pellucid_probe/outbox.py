"""What the hooks have to say, until a thread of ours packs it and puts it into the ring.

    hook ── put(pack, values) ──▶ queue ──▶ flush(): each of pack(values) goes into the ring

Packing in the hook costs several times as much: between two steps the engine evicts our code and data from the
caches, and a record packed after another one finds them warm. A hook therefore only appends. If the thread cannot
keep up, the hook flushes itself. Records keep their order. A killed process loses what waited here, about a tenth of
a second; a hook that saw the last request go wakes the thread, since an idle engine may be stopped any moment. A
process that ends in good order takes leave with `last`.

The thread empties it in pieces with a pause between them: while it packs it holds the interpreter, and a step of three
milliseconds that is held up for a tenth of a second's records is seen at the 99th percentile of token gaps. Woken it
writes all at once: no step is held up where nobody is left.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Iterable, List, Tuple

from pellucid_probe.ring import Record, RingWriter

FULL = 512              # waiting entries above which a hook flushes itself
PIECE = 8               # entries packed at a time by the thread, about as many as share warm caches
PAUSE_S = 0.002         # between pieces, about a step of a small model
PIECES = 16             # then the rest at once: the thread has to keep up, and has more to do
LAST_S = 1.0            # how long a process that ends waits for who is writing

Pack = Callable[[Any], "Iterable[Record]"]


class Outbox:
    def __init__(self, ring: RingWriter) -> None:
        self.ring = ring
        self.cost_ns = 0
        self.errors_count = 0
        self.on_error: Callable[[], None] = lambda: None    # who has to know that a record is missing
        self.waiting: Deque[Tuple[Pack, Any]] = deque()     # a hook of a step looks at its length by itself
        self._silent = False
        self.append = self.waiting.append     # of (pack, values); for a hook that looks
        self._lock = threading.Lock()
        self._bell = threading.Lock()         # held but between `wake` and the `wait` that hears it
        self._bell.acquire()

    def put(self, pack: Pack, values: Any) -> None:
        """`values` must not change afterwards."""
        self.waiting.append((pack, values))
        if len(self.waiting) > FULL:
            self.flush()

    def empty(self, woken: bool = False) -> None:
        """What the thread does: a flush in pieces, so that nobody waits long for the interpreter."""
        for _ in range(0 if woken else PIECES):
            if not self.flush(PIECE):
                return
            time.sleep(PAUSE_S)
        self.flush()

    def flush(self, most: float = math.inf) -> bool:
        """Writes what waits, at most so many entries. Whether more does. Nothing while another thread is at it."""
        if self._silent:
            self.waiting.clear()
        if not self.waiting or not self._lock.acquire(False):
            return False
        start = time.thread_time_ns()    # CPU time: waiting for the interpreter lock costs nobody anything
        spent: List[Any] = []
        packed: List[Record] = []
        try:
            while self.waiting and len(spent) < most:
                entry = self.waiting.popleft()
                spent.append(entry)
                pack, values = entry
                try:
                    packed += pack(values)
                except Exception:     # one record that cannot be packed must not stop the others
                    self.errors_count += 1
                    self.on_error()
            self.ring.write_all(packed)
        except Exception:    # our thread must go on
            self.errors_count += 1
        finally:
            self._lock.release()
            self.cost_ns += time.thread_time_ns() - start
        # `spent` goes after the clock was read: to free a plan with all its lists is the engine's cost, only later.
        return bool(self.waiting)

    def wake(self) -> None:
        """Ends a `wait`, or the next one. A flush here would hold the engine's last outputs back for milliseconds."""
        with contextlib.suppress(RuntimeError):     # rung already
            self._bell.release()

    def wait(self, seconds: float) -> bool:
        """Sleeps, at most until somebody wakes us. Whether somebody did."""
        return self._bell.acquire(timeout=seconds)

    def last(self) -> None:
        """A flush before the process ends. What another thread has taken out must be in the ring by then, too."""
        if self._lock.acquire(timeout=LAST_S):
            self._lock.release()
        self.flush()

    def silence(self) -> None:
        """Forgets what waits and writes nothing more."""
        self._silent = True
        self.waiting.clear()


def one(kind: int, pack: Callable[[Any], bytes]) -> Pack:
    """For what becomes a single record."""
    return lambda values: ((kind, pack(values)),)
