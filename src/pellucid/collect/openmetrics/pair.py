"""Two moments of one metrics page, saved as JSON: what was on it before a load, and after.

    {"before": {"requests_total{code=\\"200\\"}": 410.0, …}, "after": {"requests_total{code=\\"200\\"}": 2179.0, …}}

What stands beside these two is left alone. It says no times: the second moment is taken to be the file's last change,
as for a page; when the first was stays null, and with it the length of what lies between. Of a damaged file what is
whole counts. A series that its first moment lost has no increase, and its second is left out too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pellucid.catalog.load_series import find
from pellucid.collect.openmetrics.parse import Page, parse
from pellucid.collect.openmetrics.rows import Append, Pages
from pellucid.core.clock import anchor_now
from pellucid.core.packed import content

MOMENTS = ("before", "after")
# A value counts when what follows it was written too: else it may be the beginning of a longer number.
_SERIES = re.compile(
    r'("(?:[^"\\\ufffd]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")\s*:\s*(-?(?:\d[\d.eE+-]*|Infinity)|NaN|null)(?=\s*[,}])\s*,?\s*'
)
_OBJECT = re.compile(r'"(\w+)"\s*:\s*\{\s*')


@dataclass(frozen=True, slots=True)
class Pair:
    before: Page
    after: Page

    def damaged_count(self) -> int:
        return self.before.damaged_count + self.after.damaged_count


def is_pair(head: bytes) -> bool:
    """The beginning of a file, unpacked."""
    if not head.lstrip().startswith(b"{") or not any(f'"{moment}"'.encode() in head for moment in MOMENTS):
        return False
    pair = parse_pair(head.decode(errors="replace"))
    return any(find(sample.name) for page in (pair.before, pair.after) for sample in page.samples)


def read_pair(path: Path, append: Append) -> tuple[Pages, int]:
    """Pages, and how many places of the file were damaged. The process is called as the file is. Raises OSError."""
    anchor = anchor_now()
    pair = parse_pair(content(path).decode(errors="replace"))
    pages = Pages(append, anchor)
    time_ns = anchor.mono(path.stat().st_mtime_ns)
    pages.take(pair.before.samples, path.name, None)
    pages.take(pair.after.samples, path.name, time_ns)
    for process in pages.speakers:
        pages.source(process, "", time_ns)
    return pages, pair.damaged_count()


def parse_pair(text: str) -> Pair:
    """A moment that is not there has no samples and no damage."""
    objects = list(_OBJECT.finditer(text))
    ends = {o.end(): following.start() for o, following in pairwise(objects)}
    values = {o[1]: _values(text, o.end(), ends.get(o.end(), len(text))) for o in objects if o[1] in MOMENTS}
    before, lost = values.get("before", ({}, 0))
    after, lost_after = values.get("after", ({}, 0))
    if lost and before:
        after = {series: value for series, value in after.items() if series in before}
    return Pair(_page(before, lost), _page(after, lost_after))


def _values(text: str, start: int, end: int) -> tuple[dict[str, str], int]:
    """Series → number, as written, and how many places could not be read. A series that comes again is of the next
    moment, whose beginning is lost."""
    values: dict[str, str] = {}
    damaged_count = 0
    while start < end and text[start] != "}":
        hit = _SERIES.match(text, start, end)
        if hit is None:
            damaged_count += 1
            hit = _SERIES.search(text, start + 1, end)
        if hit is None:
            return values, damaged_count
        series = json.loads(hit[1], strict=False)
        if series in values:
            return values, damaged_count + 1
        values[series] = hit[2]
        start = hit.end()
    return values, damaged_count + (start >= end)


def _page(values: dict[str, str], damaged_count: int) -> Page:
    read = parse("".join(f"{series} {value}\n" for series, value in values.items() if value != "null"))
    return Page(read.samples, read.damaged_count + damaged_count)
