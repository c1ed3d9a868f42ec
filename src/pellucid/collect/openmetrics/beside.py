"""The engine's metrics page, read beside the probe's rings: a thread fetches, the recorder writes.

    page = Beside(endpoint("localhost:8000"), 5 * S_NS, writer.append, clock)
    page.cycle()                   writes the pages that have come
    page.close()

A page that is slow, or an engine that does not answer yet, delays no ring. Nothing is written before the first page.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from queue import Empty, SimpleQueue

from pellucid.collect.openmetrics.address import Endpoint
from pellucid.collect.openmetrics.fetch import Fetched, client, fetch
from pellucid.collect.openmetrics.parse import parse
from pellucid.collect.openmetrics.rows import Append, Pages
from pellucid.collect.openmetrics.translate import Key
from pellucid.core.clock import Clock, anchor_now
from pellucid.core.units import S_NS

TIMEOUT_S = 10.0           # engines answer in milliseconds, also under load, unless their loop is stuck


class Beside:
    def __init__(self, at: Endpoint, every_ns: int, append: Append, clock: Clock, headers: Mapping[str, str]) -> None:
        self.at, self.every_ns, self.clock, self.headers = at, every_ns, clock, headers
        self.pages = Pages(append, anchor_now())
        self._came: SimpleQueue[tuple[int, Fetched]] = SimpleQueue()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._fetch, name="metrics page", daemon=True)
        self._thread.start()

    def cycle(self) -> None:
        while True:
            try:
                self._write(*self._came.get_nowait())
            except Empty:
                return

    def close(self) -> None:
        """Waits for a page that is on its way, no longer than it may take."""
        self._over.set()
        self._thread.join(TIMEOUT_S)
        self.cycle()

    def _fetch(self) -> None:
        with client(self.at, self.headers, TIMEOUT_S) as http:
            while not self._over.is_set():
                got = fetch(http, self.at.url)
                self._came.put((self.clock(), got))
                self._over.wait(self.every_ns / S_NS)

    def _write(self, now_ns: int, got: Fetched) -> None:
        if got.fault is None:
            self.pages.take(parse(got.text).samples, self.at.name, now_ns)
        elif self.pages.mapped_count:
            self.pages.write(Key(self.at.name, "scrape_failed_count", "counter", got.fault.reason), 1.0, now_ns)
