"""A metrics page that somebody saved. It is one moment, so it has gauges and nothing grew.

    is_page(b"process_open_fds 3\\n")            it has a family that the catalog knows
    read_page(Path("before.prom.gz"), append)    rows, at the time of the file's last change
    listed("process_open_fds gauge\n")           ["process_open_fds"]: a list of names is no page
"""

from __future__ import annotations

from pathlib import Path

from pellucid.catalog.load_series import find
from pellucid.collect.openmetrics.parse import parse
from pellucid.collect.openmetrics.rows import Append, Pages
from pellucid.core.clock import anchor_now
from pellucid.core.packed import content

TYPES = ("counter", "gauge", "histogram", "summary", "info", "stateset", "untyped", "unknown")


def is_page(head: bytes) -> bool:
    """The beginning of a file, unpacked."""
    text = head.decode(errors="replace")
    return any(find(sample.name) for sample in parse(text).samples)


def listed(text: str) -> list[str]:
    """Names in a text that has a name on each line, with its type or alone, and no value; empty where it is not that.

    Lines that begin with # say something about it. One of the names has to be in the catalog."""
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if any(words[1:] not in ([], *([kind] for kind in TYPES)) for words in lines):
        return []
    names = [words[0] for words in lines]
    return names if any(map(find, names)) else []


def read_page(path: Path, append: Append) -> tuple[Pages, int]:
    """Pages, and how many lines of the file were damaged. The process is called as the file is."""
    anchor = anchor_now()
    page = parse(content(path).decode(errors="replace"))
    pages = Pages(append, anchor)
    time_ns = anchor.mono(path.stat().st_mtime_ns)
    pages.take(page.samples, path.name, time_ns)
    for process in pages.speakers:
        pages.source(process, "", time_ns)
    return pages, page.damaged_count
