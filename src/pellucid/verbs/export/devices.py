"""Samples of devices → a graph for each thing that was sampled: power, memory, clock, temperature."""

from __future__ import annotations

from collections.abc import Iterator

from pellucid.store.read import RunReader
from pellucid.verbs.export.event import Event, seen, us
from pellucid.verbs.export.pages import pages
from pellucid.verbs.export.span import Span
from pellucid.verbs.export.tracks import Tracks

COLUMNS = ("power_watts", "memory_used_bytes", "sm_clock_hz", "temperature_celsius")
SAMPLES = f"SELECT device, time_ns, {', '.join(COLUMNS)} FROM gpu WHERE time_ns BETWEEN $lo AND $hi ORDER BY time_ns"


def devices(run: RunReader, span: Span, tracks: Tracks) -> Iterator[Event]:
    for row in pages(run, SAMPLES, span.bounds()):
        pid = tracks.group(f"samples of device {row['device']}")
        for name in seen(row, *COLUMNS):
            yield Event("C", name, pid, 0, us(span.at(row["time_ns"])), args={name: row[name]})
