"""Whether the events of a timeline are ones that viewers can draw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pellucid.verbs.export.event import COLOURS


def ns(us: float) -> int:
    return round(us * 1000)


MUST = {"X": {"ts", "dur", "cat"}, "C": {"ts", "args"}, "s": {"ts", "id", "cat"}, "f": {"ts", "id", "cat"},
        "M": {"args"}}  # fmt: skip


def malformed(events: Sequence[dict[str, Any]]) -> list[str]:
    """Events without what the format asks of their kind, arrows that are not one beginning and one later end, and
    counters whose times do not rise."""
    found = [f"{e['name']}: no {', '.join(sorted(lacks))}" for e in events if (lacks := MUST[e["ph"]] - e.keys())]
    found += [f"{e['name']}: {n} is no number of a track" for e in events for n in ("pid", "tid")
              if n in e and (type(e[n]) is not int or e[n] < 0)]  # fmt: skip
    arrows = defaultdict[tuple[str, int], list[tuple[str, float]]](list)
    counted: dict[tuple[int, str], float] = {}
    for e in events:
        if e["ph"] in "sf":
            arrows[e["cat"], e["id"]].append((e["ph"], e["ts"]))
        if e["ph"] == "C":
            if e["ts"] < counted.get((e["pid"], e["name"]), 0.0):
                found.append(f"{e['name']} at {e['ts']}: earlier than the one before")
            counted[e["pid"], e["name"]] = e["ts"]
    for arrow, ends in arrows.items():
        if [ph for ph, _ in ends] != ["s", "f"] or ends[0][1] > ends[1][1]:
            found.append(f"arrow {arrow} is {ends}")
    return found


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
