"""Engines without the probe: from their metrics pages, or from a Prometheus server that has scraped them.

    attach("localhost:8000", Attach(RecordInto(home), every_ns=5 * S_NS), stop)  → Attached(folder, …)
    recall("http://prometheus:9090", into, since_ns)                             → Attached(folder, …)

What no metrics page has goes into `facts` as blind, with what the probe would add.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pellucid.catalog.load import facts
from pellucid.collect.kv_events.follow import Endpoint as Publisher
from pellucid.collect.kv_events.follow import Follower
from pellucid.collect.openmetrics import history, scrape
from pellucid.collect.openmetrics.address import endpoint
from pellucid.collect.openmetrics.rows import Pages
from pellucid.core.clock import anchor_now
from pellucid.core.units import S_NS
from pellucid.verbs.record import RecordInto, Stop, new_run
from pellucid.verbs.site import site_key

PROBE = "pip install pellucid-probe in the engine's environment, then pellucid run -- <engine command>"
EVERY_NS = 5 * S_NS        # a page every five seconds: engines refresh their gauges every second or slower
PAGES = 20                 # at least so many in a short look: four in each of five windows
LEAST_EVERY_NS = S_NS // 2
NOT_OURS = ("recorder",)   # facts the recorder sees by itself, or says itself that it does not


@dataclass(frozen=True, slots=True)
class Attach:
    into: RecordInto
    every_ns: int = EVERY_NS
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    kv: Sequence[Publisher] = ()       # publishers of KV events, to be followed beside the page


@dataclass(frozen=True, slots=True)
class Attached:
    folder: Path
    processes: tuple[str, ...]         # replicas that spoke
    mapped_count: int                  # samples in our words
    unmapped: tuple[str, ...]          # names of samples kept as they are


def attach(url: str, how: Attach, stop: Stop, began: Callable[[Path], None] = lambda _: None) -> Attached:
    """Blocks until `stop()`. `began` is told the run's folder before the first row. Raises AskedWrongly or Failed."""
    at = endpoint(url)
    beside = _kv_events(how) if how.kv else None
    scraping = scrape.Scraping(how.every_ns, how.headers, unseen(), PROBE, beside)
    return _attached(*_into(how.into, at.url, lambda folder: scrape.record(at, folder, scraping, stop), began))


def _kv_events(how: Attach) -> Callable[[scrape.Append], Follower]:
    key = site_key(how.into.home)
    return lambda append: Follower(how.kv, key, append, anchor_now())


def recall(
    url: str, into: RecordInto, since_ns: int, headers: Mapping[str, str], selector: str = "",
    began: Callable[[Path], None] = lambda _: None,
) -> Attached:  # fmt: skip
    """The last `since_ns` of every replica the server at `url` has. Raises AskedWrongly, CannotAnswer or Failed."""
    asked = history.History(endpoint(url, ""), headers, selector)
    how = history.Recall(since_ns, anchor_now(), unseen(), PROBE)
    return _attached(*_into(into, asked.at.url, lambda folder: history.record(asked, folder, how), began))


def often_enough(limit_ns: int | None) -> int:
    """How often to read the page in a look of a given length."""
    return EVERY_NS if limit_ns is None else max(LEAST_EVERY_NS, min(EVERY_NS, limit_ns // PAGES))


def unseen() -> dict[str, str]:
    """Facts that only the probe has."""
    return {name: fact.meaning for name, fact in facts().items() if fact.role not in NOT_OURS}


def _into(
    into: RecordInto, source: str, record: Callable[[Path], Pages], began: Callable[[Path], None]
) -> tuple[Path, Pages]:
    """A run that came to nothing leaves no folder."""
    folder = new_run(into, source)
    began(folder)
    try:
        return folder, record(folder)
    except Exception:
        _remove_empty(folder)
        raise


def _remove_empty(folder: Path) -> None:
    names = {p.name for p in folder.iterdir()}
    if names <= {"run.json", "recorder.lock"}:
        for name in names:
            (folder / name).unlink()
        folder.rmdir()


def _attached(folder: Path, pages: Pages) -> Attached:
    return Attached(folder, tuple(sorted(pages.speakers)), pages.mapped_count, tuple(sorted(pages.unmapped_names)))
