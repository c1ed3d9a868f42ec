"""Records an engine from its metrics page, every few seconds, until told to stop. No probe, nothing in the engine.

    record(endpoint("localhost:8000"), folder, Every(5 * S_NS), stop)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import httpx

from pellucid.collect.openmetrics import fetch as pages_over_http
from pellucid.collect.openmetrics.address import Endpoint
from pellucid.collect.openmetrics.parse import parse
from pellucid.collect.openmetrics.rows import Pages, write_unseen
from pellucid.collect.openmetrics.translate import Key
from pellucid.core.clock import Clock, anchor_now, monotonic_ns
from pellucid.core.errors import Failed
from pellucid.core.settings import number
from pellucid.store.write import Limits, Row, RunWriter

LOOK_S = 0.05              # how often to ask whether to stop
LONGEST_WAIT_S = 10.0      # for a page; engines answer in milliseconds, also under load, unless their loop is stuck


Append = Callable[[str, Row], None]


class Beside(Protocol):
    def cycle(self, now_ns: int) -> None: ...       # often; never waits

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Scraping:
    every_ns: int
    headers: Mapping[str, str] = field(default_factory=dict)
    unseen: Mapping[str, str] = field(default_factory=dict)     # facts that no metrics page has → what they are
    collect: str = ""                                           # how to see them
    beside: Callable[[Append], Beside] | None = None            # what else is recorded into the same run


def record(at: Endpoint, folder: Path, how: Scraping, stop: Callable[[], bool], clock: Clock = monotonic_ns) -> Pages:
    """Raises Failed when the first page does not come or is no metrics page: then there is nothing to record."""
    with pages_over_http.client(at, how.headers, LONGEST_WAIT_S) as http:
        first = pages_over_http.fetch(http, at.url)
        if first.fault:
            raise Failed(f"no metrics from {at.url}: {first.fault.says}")
        page = parse(first.text)
        if not page.samples:
            raise Failed(f"{at.url} answers, but not with metrics ({page.damaged_count} lines that are none)")
        writer = RunWriter(folder, Limits(number("flush_s"), number("seal_s"), int(number("seal_rows"))), clock)
        try:
            return _record(http, at, how, stop, writer)
        finally:
            writer.close()


def _record(http: httpx.Client, at: Endpoint, how: Scraping, stop: Callable[[], bool], writer: RunWriter) -> Pages:
    beside = how.beside(writer.append) if how.beside is not None else None
    pages = Pages(writer.append, anchor_now())
    write_unseen(writer, how.unseen, how.collect)
    due_ns = writer.clock()
    described: set[str] = set()
    while True:
        _scrape(http, at, pages, writer.clock)
        for process in pages.speakers.keys() - described:
            version = pages_over_http.version(http, at, pages.speakers[process].version_path)
            pages.source(process, version, writer.clock())
            described.add(process)
        writer.tick()
        due_ns = max(due_ns + how.every_ns, writer.clock())
        while writer.clock() < due_ns and not stop():
            time.sleep(LOOK_S)
            if beside is not None:
                beside.cycle(writer.clock())
            writer.tick()
        if stop():
            break
    if beside is not None:
        beside.end()
    return pages


def _scrape(http: httpx.Client, at: Endpoint, pages: Pages, clock: Clock) -> None:
    got = pages_over_http.fetch(http, at.url)
    now_ns = clock()
    if got.fault:
        pages.write(Key(at.name, "scrape_failed_count", "counter", got.fault.reason), 1.0, now_ns)
        return
    page = parse(got.text)
    translated = pages.take(page.samples, at.name, now_ns)
    pages.write(Key(at.name, "scrape_ns", "gauge"), float(got.took_ns), now_ns)
    pages.write(Key(at.name, "scrape_damaged_count", "counter"), float(page.damaged_count), now_ns)
    pages.write(Key(at.name, "scrape_unmapped_count", "gauge"), float(len(translated.unmapped)), now_ns)


