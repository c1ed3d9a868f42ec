"""A raw line → who said it, when, how loudly, and what. Knows the ways of writing prefixes, and no engine.

    (Replica pid=7) (EngineCore_DP1 pid=9) WARNING 10-15 11:52:50 [scheduler.py:22] Text [repeated 3x across cluster]
    → Line(process="EngineCore_DP1-9", dp_rank=1, level="warning", stamp=(None, 10, 15, 42770 s),
           place="scheduler.py:22", text="Text", repeats=3, echoed=True)

Colours and carriage returns are gone before. A line in none of the forms is all text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

LONGEST = 64_000                       # characters of a line that are looked at; the rest says nothing new
COLOUR = re.compile(r"(?:\x1b|\^\[)?\[\d{1,2}(?:;\d{1,3})*m|\x1b\[[0-9;?]*[A-Za-z]")
OUTER = re.compile(r"\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\s+(?:std(?:out|err) [FP] )?")   # container, pod
PREFIX = re.compile(r"\((?:([^()=]*?)[ ,]+)?(?:rank=\d+ )?pid=(\d+)(?:, ip=[^)]*)?\)\s?")
RANK = re.compile(r"\[rank\d+\]:\s?")
REPEATED = re.compile(r"\s*\[repeated (\d+)x across cluster\].*$")
LEVELS = {
    "DEBUG": "debug", "INFO": "info", "WARNING": "warning", "WARN": "warning", "ERROR": "error",
    "CRITICAL": "critical", "FATAL": "critical", "E": "error", "W": "warning", "I": "info", "F": "critical",
}  # fmt: skip
_LEVEL = "(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"
_DATE, _CLOCK = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)", r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d(?:[.,]\d+)?)"
FORMS = tuple(map(re.compile, (
    rf"{_LEVEL} (?P<month>\d\d)-(?P<day>\d\d) {_CLOCK} \[?(?P<place>[\w./-]+:\d+)\] ?(?P<text>.*)",
    rf"\[{_DATE} {_CLOCK}(?: (?P<process>[A-Z]+\d+(?: [A-Z]+\d+)*))?\] (?:\w+ {_LEVEL}: |{_LEVEL.replace('level', 'level2')}:\s+)?(?P<text>.*)",  # noqa: E501
    rf"{_DATE} {_CLOCK} - {_LEVEL} - (?:(?P<place>[\w./-]+:\d+) - )?(?P<text>.*)",
    rf"{_DATE}[T ]{_CLOCK}Z?\s+{_LEVEL}\s+(?P<place>[\w:.]+):? (?P<text>.*)",
    r"\[(?P<level>[EWIF])(?P<month>\d\d)(?P<day>\d\d) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d\.\d+) (?P<place>\w+\.cpp:\d+)\] (?P<text>.*)",  # noqa: E501
    r"\[(?P<level>[EWIF]) (?P<place>\w+\.cpp:\d+)\] (?P<text>.*)",
    rf"{_LEVEL}:\s+(?P<text>.*)",
    rf"{_LEVEL} (?P<place>[\w]+(?:::\w+)+): (?P<text>.*)",
)))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stamp:
    """A moment as printed."""

    year: int | None
    month: int
    day: int
    of_day_ns: int


@dataclass(frozen=True, slots=True)
class Line:
    number: int              # in the file
    process: str | None
    dp_rank: int | None
    level: str | None
    stamp: Stamp | None
    place: str               # source file and line that wrote it; "" if not printed
    text: str
    repeats: int | None
    echoed: bool             # passed on by an outer process, which may print it a second time
    cut: bool                # the file ends within it


class _Fields(msgspec.Struct):
    message: str = ""


class _Json(msgspec.Struct):
    level: str
    message: str = ""
    fields: _Fields | None = None


def lines(raw: str, number: int) -> Iterator[Line]:
    """Of one line of a file; progress bars put several into it."""
    cut = not raw.endswith("\n")
    pieces = raw.rstrip("\n").split("\r")
    for n, piece in enumerate(pieces):
        if piece.strip():
            yield line(piece[:LONGEST], number, cut=(cut and n == len(pieces) - 1) or len(piece) > LONGEST)


def line(raw: str, number: int, cut: bool = False) -> Line:
    text = COLOUR.sub("", raw)
    text, process, prefixes = _prefixes(text)
    repeats = REPEATED.search(text)
    if repeats:
        text = text[: repeats.start()]
    found = next((m for form in FORMS if (m := form.match(text))), None)
    fields = found.groupdict() if found else {}
    level, said = fields.get("level") or fields.get("level2"), fields.get("text", text)
    if found is None and text.startswith("{"):
        level, said = _json(text)
    if fields.get("process"):
        process = fields["process"].replace(" ", "_")
    rank = re.search(r"\bDP(\d+)|_DP(\d+)", process or "")
    return Line(
        number, process, int(rank[1] or rank[2]) if rank else None, LEVELS.get(level or ""), _stamp(fields),
        fields.get("place") or "", said.rstrip(), int(repeats[1]) if repeats else None, prefixes > 1, cut,
    )  # fmt: skip


def _prefixes(text: str) -> tuple[str, str | None, int]:
    """What is behind them, the innermost process, how many there were."""
    process, count = None, 0
    outer = OUTER.match(text)
    text = text[outer.end() :] if outer and not FORMS[3].match(text) else text
    while found := PREFIX.match(text):
        process, count, text = f"{(found[1] or 'pid').replace(' ', '_')}-{found[2]}", count + 1, text[found.end() :]
    rank = RANK.match(text)
    return (text[rank.end() :] if rank else text), process, count


def _json(text: str) -> tuple[str | None, str]:
    """A line that is a JSON object: its level and its message; one without a level stays as it is."""
    try:
        found = msgspec.json.decode(text, type=_Json)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None, text
    return found.level.upper(), found.message or (found.fields.message if found.fields else "")


def _stamp(fields: dict[str, str | None]) -> Stamp | None:
    month, day, hours, minutes, seconds = (fields.get(k) for k in ("month", "day", "h", "m", "s"))
    if not (month and day and hours and minutes and seconds):
        return None
    of_day_ns = (int(hours) * 3600 + int(minutes) * 60) * 10**9 + round(float(seconds.replace(",", ".")) * 1e9)
    year = fields.get("year")
    return Stamp(int(year) if year else None, int(month), int(day), of_day_ns)
