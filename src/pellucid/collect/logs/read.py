"""A log file → rows of `log_events` and one of `sources`. Writes what the catalogue knows, and every warning and error.

    read_log(path, append) → Seen("serve.log.gz", version="0.24.0", model="qwen3-8b", lines_count=767, kinds={…}, …)

Most lines of a log say nothing that is kept; they are counted. What is kept is stripped first (`redact.py`): a
request's text that an engine prints is in no row. Judging what a failure means is left to others: the kind says what
the line says.
"""

from __future__ import annotations

import json
import re
import time
from calendar import timegm
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.catalog.log_lines import Entry, Known, known
from pellucid.collect.logs.blocks import Block, Blocks
from pellucid.collect.logs.line import Line, Stamp, lines
from pellucid.collect.logs.redact import redact, settings, short_name
from pellucid.core.packed import text_lines
from pellucid.core.units import S_NS
from pellucid.store.schema import LOG_EVENTS, SOURCES
from pellucid.store.write import Row

Append = Callable[[str, Row], None]
ROLE = "log"
DAY_NS = 86_400 * S_NS
REMEMBERED = 20_000     # lines, to know an echo by; seen: minutes later, behind some dozens of others
WAITING = 10_000        # rows
_WORDS = re.compile(r"[\w.+\- ]{1,80}")     # also a version of five parts, which looks like an address
LOUD = ("warning", "error", "critical")
_WHOLE = {c.name for c in LOG_EVENTS.columns if str(c.type) == "int64"}


@dataclass(slots=True)
class Seen:
    """What a file turned out to hold."""

    file: str
    engine: str | None = None
    version: str | None = None
    model: str | None = None
    lines_count: int = 0
    kinds: Counter[str] = field(default_factory=Counter)      # → rows


def read_log(path: Path, append: Append) -> Seen:
    """Raises OSError."""
    reader = LogReader(path.name, path.stat().st_mtime_ns, append, known())
    for number, raw in enumerate(text_lines(path), 1):
        reader.take(raw, number)
    return reader.end()


def is_log(head: bytes) -> bool:
    """Whether the beginning of a file has a line with a level, or one that we know."""
    if b"\0" in head:
        return False
    found = (line for n, raw in enumerate(head.decode(errors="replace").splitlines(True)) for line in lines(raw, n))
    return any(line.level or line.stamp or known().lines.first(line.text) for line in found)


@dataclass(slots=True)
class LogReader:
    file: str
    changed_ns: int                # the file's last change: the year of stamps without one
    append: Append
    known: Known
    seen: Seen = field(init=False)
    _blocks: Blocks = field(default_factory=Blocks)
    _heard: dict[tuple[str, Stamp, str, str], None] = field(default_factory=dict)   # lines, oldest first
    _rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.seen = Seen(self.file)

    def take(self, raw: str, number: int) -> None:
        self.seen.lines_count += 1
        for line in lines(raw, number):
            if self._is_echo(line):
                continue
            for block in self._blocks.take(line):
                self._block(block)

    def end(self) -> Seen:
        for block in self._blocks.end():
            self._block(block)
        self._flush()
        source = {"deployment": "default", "engine": self.seen.engine, "process": self.file, "role": ROLE,
                  "engine_version": self.seen.version, "model": self.seen.model,
                  "anchor_mono_ns": 0, "anchor_wall_ns": 0}  # fmt: skip
        self.append("sources", tuple(source.get(c) for c in SOURCES.names()))
        return self.seen

    def _flush(self) -> None:
        """Rows wait a while, so that the first of them can say whose log it is, too."""
        for row in sorted(self._rows, key=lambda r: int(r["line"])):
            self.append("log_events", tuple({**row, "engine": self.seen.engine}.get(c) for c in LOG_EVENTS.names()))
        self._rows = []

    def _is_echo(self, line: Line) -> bool:
        """Whether an outer process prints a line a second time."""
        if line.process is None or line.stamp is None:
            return False
        key = (line.process, line.stamp, line.place, line.text)
        if line.echoed and key in self._heard:
            return True
        self._heard[key] = None
        if len(self._heard) > REMEMBERED:
            del self._heard[next(iter(self._heard))]
        return False

    def _block(self, block: Block) -> None:
        head = block.head
        entry = self.known.lines.first(head.text)
        if entry is not None:
            return self._write(head, entry.kind, head.text, entry)
        raised = block.exceptions()
        loud = head.level in LOUD
        if not raised:
            trouble = self.known.troubles.first(head.text) if loud or not block.head.level else None
            if trouble is not None:
                self._write(head, trouble.kind, head.text, trouble, block.count)
            elif loud and head.text.strip():
                self._write(head, "other", head.text, None, block.count)
            return None
        return self._traceback(block, raised)

    def _traceback(self, block: Block, raised: list[tuple[Line, str, str]]) -> None:
        """What was raised, and what the line above it says, where that is known to say something of its own."""
        above = self.known.troubles.first(block.head.text)
        if above is not None and above.kind == "exception_ignored":
            return self._write(block.head, above.kind, block.head.text, above, block.count, raised[0][1])
        entry, (line, name, message) = self._cause(raised)
        if above is not None and above is not entry:
            self._write(block.head, above.kind, block.head.text, above)
        kind = entry.kind if entry is not None else "exception"
        return self._write(line, kind, f"{name}: {message}", entry, block.count, name, block.head)

    def _cause(self, raised: list[tuple[Line, str, str]]) -> tuple[Entry | None, tuple[Line, str, str]]:
        """The exception that the catalogue places first; without any, the first that was raised."""
        for entry in self.known.troubles.entries:
            for one in raised:
                if entry.when.search(one[0].text):
                    return entry, one
        return None, raised[0]

    def _write(
        self, line: Line, kind: str, text: str, entry: Entry | None, count: int = 1, subject: str | None = None,
        of: Line | None = None,
    ) -> None:  # fmt: skip
        time_ns, basis = self._time(line.stamp or (of.stamp if of else None))
        row: dict[str, Any] = {
            "deployment": "default", "process": line.process or (of.process if of else None), "dp_rank": line.dp_rank,
            "file": self.file, "time_basis": basis, "level": line.level, "kind": kind, "message": redact(text),
            "line": line.number, "time_ns": time_ns, "lines_count": count, "repeats_count": line.repeats,
            "subject": subject,
        }  # fmt: skip
        if entry is not None:
            row |= _numbers(entry, text, line.cut)
            row["arguments_json"] = _arguments(entry, text)
            row["subject"] = _subject(entry, text) or subject
            self._learn(entry, row)
        self.seen.kinds[kind] += 1
        self._rows.append(row)
        if len(self._rows) >= WAITING:
            self._flush()

    def _learn(self, entry: Entry, row: dict[str, Any]) -> None:
        """Whose log it is; the first line that says so counts."""
        self.seen.engine = self.seen.engine or entry.engine or None
        if entry.kind in ("version", "engine_config"):
            self.seen.version = self.seen.version or row["subject"]
        if entry.kind == "model":
            self.seen.model = self.seen.model or row["subject"]
        if row["arguments_json"] is not None and self.seen.model is None:
            self.seen.model = _model(row["arguments_json"])

    def _time(self, stamp: Stamp | None) -> tuple[int | None, str | None]:
        if stamp is None:
            return None, None
        try:
            if stamp.year is not None:
                return _unix_ns(stamp, stamp.year), "line"
            year = time.gmtime(self.changed_ns // S_NS).tm_year
            found = _unix_ns(stamp, year)
            return (found if found <= self.changed_ns + DAY_NS else _unix_ns(stamp, year - 1)), "file"
        except (ValueError, OverflowError):
            return None, None


def _numbers(entry: Entry, text: str, cut: bool) -> dict[str, int | float]:
    """A number at the end of a line that was cut may have lost digits: it does not count."""
    found: dict[str, int | float] = {}
    for column, number in entry.numbers.items():
        match = number.find.search(text)
        if match is None or (cut and match.end() == len(text)):
            continue
        try:
            value = sum(float(group.replace(",", "")) for group in match.groups()) * number.times
        except ValueError:
            continue
        found[column] = round(value) if column in _WHOLE else round(value, 9)
    return found


def _subject(entry: Entry, text: str) -> str | None:
    match = entry.subject.search(text) if entry.subject is not None else None
    if match is None:
        return None
    found = short_name(match[1]) if match[1].startswith(("/", "~", ".")) else match[1]
    return found if found is None or _WORDS.fullmatch(found) else redact(found)[:80]


def _arguments(entry: Entry, text: str) -> str | None:
    match = entry.arguments.search(text) if entry.arguments is not None else None
    return settings(text[match.end() :]) if match else None


def _model(arguments_json: str) -> str | None:
    found = json.loads(arguments_json)
    model = found.get("model") or found.get("model_path")
    return model if isinstance(model, str) else None


def _unix_ns(stamp: Stamp, year: int) -> int:
    """Raises ValueError on a day no calendar has."""
    time.strptime(f"{year}-{stamp.month}-{stamp.day}", "%Y-%m-%d")
    return timegm((year, stamp.month, stamp.day, 0, 0, 0)) * S_NS + stamp.of_day_ns

