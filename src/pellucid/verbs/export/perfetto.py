"""A run → one timeline of steps, requests, kernels and devices that ui.perfetto.dev and chrome://tracing open.

    {"displayTimeUnit": "ns", "baseTimeNanoseconds": 1796033931783900405, "deviceProperties": […],
     "otherData": {"made_by": "pellucid 0.1", "run_id": "20261130-091500-a1b2", …},
     "traceEvents": [{"ph": "X", "name": "step 7: decode", "ts": 0.0, "dur": 20154.1, …}, …]}

Made a piece at a time: what is in memory does not grow with the run. Nothing is in it that the store does not have: no
prompt and no token. Folders, of the run's command or of its model, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pellucid import __version__
from pellucid.store.read import RunReader, open_run
from pellucid.verbs.export.devices import devices
from pellucid.verbs.export.event import Event
from pellucid.verbs.export.kernels import kernels
from pellucid.verbs.export.requests import requests
from pellucid.verbs.export.span import Span, Wish, find_span
from pellucid.verbs.export.steps import Shown, arrows, steps
from pellucid.verbs.export.tracks import Tracks

PIECE_BYTES = 1 << 18
TIMELESS = "SELECT coalesce(sum(count), 0)::BIGINT AS n FROM kernels WHERE start_ns IS NULL"
ENGINES = """
    SELECT string_agg(DISTINCT engine, ' + ' ORDER BY engine) AS engine,
           string_agg(DISTINCT engine_version, ' + ' ORDER BY engine_version) AS engine_version,
           any_value(regexp_extract(model, '([^/]*)/*$', 1)) AS model FROM processes"""


@dataclass(frozen=True, slots=True)
class Export:
    pieces: Iterator[bytes]         # of the file, to be written one after the other
    notes: tuple[str, ...]          # what is not in it, and why


def perfetto(folder: Path, wish: Wish) -> Export:
    """Raises CannotAnswer where there is nothing with a time, AskedWrongly where there is no such capture."""
    run = open_run(folder)
    span = find_span(run, wish)
    notes = tuple(_notes(run, span))
    return Export(_pieces(_head(run, span, notes), events(run, span)), notes)


def events(run: RunReader, span: Span) -> Iterator[Event]:
    """Everything that is shown, then who is who. Ends of arrows come after their beginnings."""
    tracks, shown, to_kernels = Tracks(), Shown(), arrows(run, span)
    yield from steps(run, span, tracks, to_kernels, shown)
    yield from requests(run, span, tracks, shown)
    yield from kernels(run, span, tracks, to_kernels)
    yield from devices(run, span, tracks)
    yield from tracks.names()


def _notes(run: RunReader, span: Span) -> Iterator[str]:
    for c in span.captures.values():
        if c.own_clock:
            yield f"{c.row['file'] or c.row['capture']} has no wall time near the run's: it is shown from the timeline's beginning"  # noqa: E501
    if timeless := run.one(TIMELESS)["n"]:
        yield f"{timeless:,} kernels of tables of sums have no time of their own: they are not shown"
    yield from (f"{d.path.name} is damaged and left out: {d.reason}" for d in run.damaged)


def _head(run: RunReader, span: Span, notes: tuple[str, ...]) -> dict[str, Any]:
    engine = {n: v for n, v in run.one(ENGINES).items() if v}
    wall = {} if span.wall_origin_ns is None else {"baseTimeNanoseconds": span.wall_origin_ns}
    return {
        "displayTimeUnit": "ns", **wall, "deviceProperties": _devices(span),
        "otherData": {"made_by": f"pellucid {__version__}", "run_id": run.folder.name, **engine,
                      "origin_ns": span.origin_ns, "notes": list(notes)},
    }  # fmt: skip


def _devices(span: Span) -> list[dict[str, Any]]:
    """As a torch profiler lists them. Each kind once: which of several is which, tracks say."""
    kinds = []
    for c in span.captures.values():
        major, _, minor = (c.row["compute_capability"] or "").partition(".")
        told = {
            "name": c.row["device_name"], "numSms": c.row["processors_count"],
            "totalGlobalMem": c.row["device_memory_bytes"], "computeMajor": int(major) if major.isdigit() else None,
            "computeMinor": int(minor) if minor.isdigit() else None,
        }  # fmt: skip
        if told["name"] and told not in kinds:
            kinds.append(told)
    return [{"id": n, **{k: v for k, v in told.items() if v is not None}} for n, told in enumerate(kinds)]


def _pieces(head: dict[str, Any], found: Iterator[Event]) -> Iterator[bytes]:
    encoder, piece = msgspec.json.Encoder(), bytearray()
    piece += encoder.encode(head)[:-1] + b',"traceEvents":['
    before = b"\n"
    for event in found:
        piece += before
        piece += encoder.encode(event)
        before = b",\n"
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece) + b"\n]}\n"
