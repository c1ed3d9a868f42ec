"""Log lines we know, by what they say: `log_lines.toml` → compiled entries, in the order in which they are tried.

    known().lines.entries[0].kind == "version"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

PATH = Path(__file__).with_name("log_lines.toml")


class _Number(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    find: str
    times: float = 1.0


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    when: str
    engine: str = ""            # "" where any engine may write it
    subject: str = ""
    arguments: str = ""
    numbers: dict[str, _Number] = {}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    line: list[_Entry]
    trouble: list[_Entry]


@dataclass(frozen=True, slots=True)
class Number:
    find: re.Pattern[str]       # its groups are numbers, to be added up
    times: float                # → the column's unit


@dataclass(frozen=True, slots=True)
class Entry:
    kind: str
    engine: str
    when: re.Pattern[str]
    subject: re.Pattern[str] | None
    arguments: re.Pattern[str] | None
    numbers: dict[str, Number]


@dataclass(frozen=True, slots=True)
class Entries:
    """Most are looked for at the start of a line only: all of those at once, since most lines are none of them."""

    entries: tuple[Entry, ...]
    starts: re.Pattern[str]
    anywhere: tuple[Entry, ...]

    def first(self, text: str) -> Entry | None:
        if self.starts.match(text) is None and not any(entry.when.search(text) for entry in self.anywhere):
            return None
        return next((entry for entry in self.entries if entry.when.search(text)), None)


@dataclass(frozen=True, slots=True)
class Known:
    lines: Entries      # looked for in every line
    troubles: Entries   # in warnings, errors and tracebacks


@cache
def known() -> Known:
    """Raises ValueError that names the file and the entry."""
    try:
        raw = msgspec.toml.decode(PATH.read_text(), type=_File)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"{PATH.name}: {error}") from error
    return Known(_entries(raw.line), _entries(raw.trouble))


def _entries(raw: list[_Entry]) -> Entries:
    entries = tuple(map(_entry, raw))
    at_start = [e for e in entries if all(part.startswith("^") for part in _alternatives(e.when.pattern))]
    starts = re.compile("|".join(f"(?:{e.when.pattern})" for e in at_start))
    return Entries(entries, starts, tuple(e for e in entries if e not in at_start))


def _entry(raw: _Entry) -> Entry:
    try:
        return Entry(
            raw.kind, raw.engine, re.compile(raw.when),
            re.compile(raw.subject) if raw.subject else None, re.compile(raw.arguments) if raw.arguments else None,
            {name: Number(re.compile(n.find), n.times) for name, n in raw.numbers.items()},
        )  # fmt: skip
    except re.error as error:
        raise ValueError(f"{PATH.name}: {raw.kind}: {error}") from error


def _alternatives(pattern: str) -> list[str]:
    """Split at each | that is in no group."""
    parts, depth = [""], 0
    for n, c in enumerate(pattern):
        plain = n == 0 or pattern[n - 1] != "\\"
        depth += (c == "(" and plain) - (c == ")" and plain)
        if c == "|" and not depth and plain:
            parts.append("")
        else:
            parts[-1] += c
    return parts
