"""Whether the events of a timeline are ones that viewers can draw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pellucid.verbs.export.event import COLOURS


def ns(us: float) -> int:
    return round(us * 1000)


def faults(events: Sequence[dict[str, Any]]) -> list[str]:
    """Slices that lie across each other, times below zero, colours nobody knows, tracks without a name."""
    tracks = defaultdict[tuple[int, int], list[tuple[int, int, str]]](list)
    for e in events:
        if e["ph"] == "X":
            tracks[e["pid"], e["tid"]].append((ns(e["ts"]), -ns(e["dur"]), e["name"]))
    found = [f"{e['name']} at {e['ts']}" for e in events if "ts" in e and e["ts"] < 0]
    colours = {*COLOURS.values(), "generic_work", "grey"}
    found += [e["cname"] for e in events if "cname" in e and e["cname"] not in colours]
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    found += [f"track {track} has no name" for track in tracks if track not in named]
    for slices in tracks.values():
        found += _across(sorted(slices))
    return found


def _across(slices: list[tuple[int, int, str]]) -> list[str]:
    found, open_until = [], list[int]()
    for start, minus, name in slices:
        while open_until and open_until[-1] <= start:
            open_until.pop()
        if open_until and start - minus > open_until[-1]:
            found.append(f"{name} at {start} ends at {start - minus}, what is around it at {open_until[-1]}")
        open_until.append(start - minus)
    return found
