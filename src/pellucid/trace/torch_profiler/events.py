"""Blocks of events → events with the fields we use, whatever state the block is in.

    decode(b'[{"ph": "X", "cat": "kernel", "name": "k", "ts": 1.5, "dur": 2, "args": {"stream": 7}}]', damage)

A whole block is decoded at once. One that does not decode is cleaned (control characters, bytes that are no UTF-8, NaN)
and tried again; then each event is tried alone, with its types bent into shape, its quotes mended, or joined with what
follows where the seam stood inside it. What still does not decode is lost, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from msgspec import Raw, Struct

from pellucid.trace.timeline import Damage
from pellucid.trace.torch_profiler.blocks import SEAM

NOTHING = Raw(b"")


class Args(Struct, gc=False):
    external: int = msgspec.field(default=-1, name="External id")
    device: int = -1
    stream: int = -1
    correlation: int = -1
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    bytes: int | str = -1           # ROCm's profiler writes a text
    graph: int = msgspec.field(default=-1, name="graph id")
    graph_node: int = msgspec.field(default=-1, name="graph node id")
    scalars: Raw = msgspec.field(default=NOTHING, name="Concrete Inputs")
    types: Raw = msgspec.field(default=NOTHING, name="Input type")
    shapes: Raw = msgspec.field(default=NOTHING, name="Input Dims")
    collective: str = msgspec.field(default="", name="Collective name")
    in_elements: int = msgspec.field(default=-1, name="In msg nelems")
    out_elements: int = msgspec.field(default=-1, name="Out msg nelems")
    group_ranks: int = msgspec.field(default=-1, name="Group size")
    dtype: str = ""


class Event(Struct, gc=False):
    """Times are microseconds with up to three decimals; None where the event has none."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = -1
    tid: int | str = -1
    ts: int | float | None = None
    dur: int | float | None = None
    args: Args | None = None
    id: int | str = -1


class ExactEvent(Event, gc=False):
    """A time since 1970 has more digits than a float: its text is kept."""

    ts: Raw = NOTHING                   # type: ignore[assignment]


NO_ARGS = Args()
WHOLE = msgspec.json.Decoder(list[Event])
WHOLE_EXACT = msgspec.json.Decoder(list[ExactEvent])
ONE = msgspec.json.Decoder(Event)
ONE_EXACT = msgspec.json.Decoder(ExactEvent)
LOOSE = msgspec.json.Decoder(float_hook=Decimal)
TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
CONTROL = bytes(b if b >= 32 else 32 for b in range(256))
RARE = bytes(range(9)) + bytes((11, 12)) + bytes(range(14, 32))         # control characters that are no white space
NO_NUMBER = re.compile(rb"(?<=[\[:,\s])[-+]?(?:nan|inf(?:inity)?)(?=\s*[,}\]])", re.IGNORECASE)
NAME = re.compile(rb'("name"\s*:\s*")(.*?)("\s*,\s*"(?:ph|cat|ts|pid|tid|id|args|dur)"\s*:)', re.DOTALL)
BARE_QUOTE = re.compile(rb'(?<!\\)"')
LOOSE_SEAM = re.compile(rb'(?<=\})\s*,|,(?=\s*\{\s*"(?:ph|name|cat|ts|pid|tid|args)"\s*:)')
LIST_END = re.compile(rb"\}\s*\](?=\s*(?:,\s*\"|\}))")
PARTS_OF_EVENT = 8      # chosen: how many parts are joined to find an event with objects in it, cut at their seams
LOST = "an event is no JSON"
Failures = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


@dataclass(slots=True)
class Decoded:
    events: list[Event]
    after: bytes | None = None      # what stands behind the end of the list; None where it does not end here
    rest: bytes = b""               # what does not decode at the end of a block: an event that was cut with it


def decode(block: bytes, damage: Damage, exact: bool = False, final: bool = True) -> Decoded:
    """All events of a block, brackets and all, that can be read. `final`: no block comes after it."""
    decoder = WHOLE_EXACT if exact else WHOLE
    try:
        return _whole(decoder, block)
    except Failures:
        pass
    cleaned = _cleaned(block, damage)
    if cleaned != block:
        try:
            return _whole(decoder, cleaned)
        except Failures:
            pass
    return _one_by_one(cleaned[1:-1], damage, ONE_EXACT if exact else ONE, final)


def _whole(decoder: Any, data: bytes) -> Decoded:
    try:
        return Decoded(decoder.decode(data))
    except msgspec.DecodeError as error:
        if found := TRAILING.search(str(error)):
            at = int(found[1]) - 1      # it has read that byte
            return Decoded(decoder.decode(data[:at]), data[at:-1])
        raise


def _cleaned(block: bytes, damage: Damage) -> bytes:
    if len(block.translate(None, RARE)) != len(block):
        damage.odd("a text holds control characters")
    cleaned = block.translate(CONTROL)
    cleaned, numbers = NO_NUMBER.subn(b"null", cleaned)
    if numbers:
        damage.odd("NaN or Infinity stands where JSON has no number")
    try:
        cleaned.decode()
    except UnicodeDecodeError:
        damage.odd("a text is not UTF-8")
        cleaned = cleaned.decode(errors="replace").encode()
    return cleaned


def _one_by_one(block: bytes, damage: Damage, decoder: Any, final: bool) -> Decoded:
    decoded = Decoded([])
    parts = list(_parts(block))
    parts[-1], decoded.after = _before_end(parts[-1])
    at = 0
    while at < len(parts):
        event, used = _joined(decoder, parts[at:at + PARTS_OF_EVENT])
        event = event or _mended(decoder, parts[at])
        if event:
            decoded.events.append(event)
        elif at + PARTS_OF_EVENT >= len(parts) and decoded.after is None and not final:
            decoded.rest = b",".join(parts[at:])
            return decoded
        elif parts[at]:
            decoded.events += _among(decoder, parts[at])
            damage.lost(LOST)
        at += used
    return decoded


def _parts(block: bytes) -> Iterator[bytes]:
    start = 0
    for seam in SEAM.finditer(block):
        yield block[start:seam.start() + 1]
        start = seam.end()
    yield block[start:]


def _joined(decoder: Any, parts: list[bytes]) -> tuple[Event | None, int]:
    """The event that begins in the first part, and how many parts it takes. (None, 1) where there is none."""
    for count in range(1, len(parts) + 1):
        if event := _one(decoder, b",".join(parts[:count])):
            return event, count
    return None, 1


def _among(decoder: Any, text: bytes) -> list[Event]:
    """Events beside one that is so broken that no seam is left between them."""
    return [event for part in LOOSE_SEAM.split(text) if (event := _one(decoder, part)) and event.ph]


def _one(decoder: Any, text: bytes) -> Event | None:
    try:
        event: Event = decoder.decode(text)
        return event
    except msgspec.ValidationError:
        return _bent(text)
    except Failures:
        return None


def _bent(text: bytes) -> Event | None:
    """An event whose fields are of other types than the profiler's: those that fit are taken."""
    try:
        found = LOOSE.decode(text)
        args = found["args"] if isinstance(found.get("args"), dict) else {}
        return Event(
            **{name: str(found[name]) for name in ("ph", "cat", "name") if found.get(name) is not None},
            **{name: found[name] for name in ("pid", "tid", "id") if isinstance(found.get(name), int | str)},
            ts=_number(found.get("ts")), dur=_number(found.get("dur")), args=_bent_args(args),
        )  # fmt: skip
    except (*Failures, AttributeError):
        return None


def _bent_args(found: dict[str, Any]) -> Args:
    args = Args()
    for field in msgspec.structs.fields(Args):
        value = found.get(field.encode_name)
        if field.type is int and (number := _number(value)) is not None and number == int(number):
            setattr(args, field.name, int(number))
        elif field.type is str and isinstance(value, str):
            setattr(args, field.name, value)
        elif field.type is Raw and isinstance(value, list):
            setattr(args, field.name, Raw(msgspec.json.encode(value)))
        elif field.name in ("grid", "block") and isinstance(value, list) and all(isinstance(v, int) for v in value):
            setattr(args, field.name, tuple(value))
    return args


def _number(value: object) -> Any:
    """A number, or a text that is one; None for anything else."""
    if isinstance(value, str):
        try:
            value = Decimal(value)
        except InvalidOperation:
            return None
    finite = isinstance(value, int) or (isinstance(value, Decimal) and value.is_finite())
    return value if finite and not isinstance(value, bool) else None


def _mended(decoder: Any, text: bytes) -> Event | None:
    """An event in whose name quotes stand without a backslash, as old profilers wrote it."""
    found = NAME.search(text)
    if not found or b'"ph"' in found[2] or b'"name"' in found[2]:       # two events, and what parts them is broken
        return None
    return _one(decoder, text[:found.end(1)] + BARE_QUOTE.sub(rb'\\"', found[2]) + text[found.start(3):])


def _before_end(text: bytes) -> tuple[bytes, bytes | None]:
    """The last event of the list and what stands behind the list's end; None where the list is cut."""
    for found in reversed(list(LIST_END.finditer(text))):
        rest = text[found.end():].strip()
        if rest.startswith((b",", b"}")):
            return text[:found.start() + 1], rest
    if text.strip().startswith(b"]"):
        return b"", text.strip()[1:]
    return text.rstrip(b" \t\r\n,"), None
