"""The audit log of a session as bytes: JSON lines, each with the hash of the line before. Nothing is written here.

    {"hash":"9f…","seq":3,"prev":"07…","wall_ns":…,"mono_ns":…,"kind":"guarded","payload":{"allowed":true,…}}

The hash is SHA-256 of everything behind it in its own line, `prev` in it: a changed, lost or moved line breaks the
chain where it happened. The end of a chain can be cut off unseen; the file `head` beside it holds the last number and
hash, written after each line. A last line without its line end is what a killed writer leaves: it was never acted on.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

GENESIS = "0" * 64
HASH_CHARS = 64
OPENING = b'{"hash":"'


@dataclass(frozen=True, slots=True)
class Entry:
    seq: int                       # from 0
    prev: str
    wall_ns: int                   # UNIX ns
    mono_ns: int                   # CLOCK_MONOTONIC of the writer's host
    kind: str
    payload: dict[str, Any]
    hash: str


@dataclass(frozen=True, slots=True)
class Break:
    """Where the chain does not hold."""

    line: int                      # from 1
    says: str


@dataclass(frozen=True, slots=True)
class Reading:
    entries: tuple[Entry, ...]     # all that read, behind a break too
    breaks: tuple[Break, ...]
    whole_bytes: int               # up to the last line end
    torn_bytes: int                # behind it


@dataclass(frozen=True, slots=True)
class Head:
    seq: int
    hash: str


def line(before: Entry | None, kind: str, payload: dict[str, Any], wall_ns: int, mono_ns: int) -> tuple[bytes, Entry]:
    """The next line and its entry. Raises ValueError for what JSON cannot say, such as NaN."""
    seq, prev = (0, GENESIS) if before is None else (before.seq + 1, before.hash)
    body = {"seq": seq, "prev": prev, "wall_ns": wall_ns, "mono_ns": mono_ns, "kind": kind, "payload": payload}
    rest = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()[1:]
    digest = hashlib.sha256(rest).hexdigest()
    entry = Entry(seq, prev, wall_ns, mono_ns, kind, payload, digest)
    return OPENING + digest.encode() + b'",' + rest + b"\n", entry


def read(data: bytes) -> Reading:
    """Never raises: what does not read is a break, and what is whole before and behind it is there."""
    *lines, torn = data.split(b"\n")
    entries: list[Entry] = []
    breaks: list[Break] = []
    expected, prev = 0, GENESIS
    for number, text in enumerate(lines, 1):
        entry, fault = _entry(text)
        if entry is None:
            breaks.append(Break(number, fault))
            prev, expected = "", expected + 1
            continue
        if not fault and prev and (entry.seq, entry.prev) != (expected, prev):
            fault = f"it is entry {entry.seq} where entry {expected} should be" if entry.seq != expected else (
                "it does not follow the line before")  # fmt: skip
        if fault:
            breaks.append(Break(number, fault))
        entries.append(entry)
        prev, expected = entry.hash, entry.seq + 1
    return Reading(tuple(entries), tuple(breaks), len(data) - len(torn), len(torn))


def against_head(reading: Reading, head: Head | None) -> Break | None:
    """Whether the end is there. A writer that was killed between a line and its head leaves one line more."""
    last = reading.entries[-1] if reading.entries else None
    at = len(reading.entries)
    if head is None:
        lost = Break(at, "the file `head` is missing or does not read, so nobody can tell whether the end was cut off")
        return None if at <= 1 else lost
    if last is None or last.seq < head.seq:
        return Break(at, f"entries up to {head.seq} were written and the last one here is "
                         f"{'none' if last is None else last.seq}: the end was cut off")  # fmt: skip
    if last.seq > head.seq + 1 or not any(e.seq == head.seq and e.hash == head.hash for e in reading.entries):
        return Break(at, "the file `head` is of another journal, or of this one before it was edited")
    return None


def head_text(entry: Entry) -> str:
    return f"{entry.seq} {entry.hash}\n"


def read_head(text: str) -> Head | None:
    """None where it does not read, as after a power failure."""
    seq, _, digest = text.strip().partition(" ")
    return Head(int(seq), digest) if seq.isascii() and seq.isdigit() and len(digest) == HASH_CHARS else None


def _entry(text: bytes) -> tuple[Entry | None, str]:
    """An entry and what is wrong with it."""
    start = len(OPENING) + HASH_CHARS
    digest, rest = text[len(OPENING):start], text[start + 2:]
    try:
        body = json.loads(b"{" + rest)
        entry = Entry(body["seq"], body["prev"], body["wall_ns"], body["mono_ns"], body["kind"], body["payload"],
                      digest.decode())  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None, "it is no entry"
    if not _typed(entry):
        return None, "it is no entry"
    if not text.startswith(OPENING) or text[start:start + 2] != b'",' or hashlib.sha256(rest).hexdigest() != entry.hash:
        return entry, "its hash is not that of its contents: it was changed"
    return entry, ""


def _typed(entry: Entry) -> bool:
    numbers = (entry.seq, entry.wall_ns, entry.mono_ns)
    return all(type(n) is int for n in numbers) and isinstance(entry.kind, str) and isinstance(entry.payload, dict)
