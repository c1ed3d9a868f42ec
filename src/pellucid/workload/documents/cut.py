"""JSON that may be cut or damaged → the part of it that is whole.

    whole(b'{"spans": [{"a": 1}, {"b": [{"c', {b"spans"}) == b'{"spans": [{"a": 1}]}'
    top_keys(b'{"args": {"x": 1}, "benchmarks": [') == {"args", "benchmarks"}
    list(documents(b'{"a": 1}\n{"b": 2}\n{"c"')) == [b'{"a": 1}', b'{"b": 2}', b'{"c"']

Only brackets and strings are looked at: what stands in a string is no bracket.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import TypeVar

import msgspec

REST = "the rest of a damaged document"     # the reason under which it is counted
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)
_CLOSES = {b"{": b"}", b"[": b"]"}
Kind = TypeVar("Kind")


def decoded(text: bytes, kind: type[Kind], lists: Collection[bytes]) -> tuple[Kind | None, bool]:
    """A document, and whether it is all there. Of a damaged one: up to the last whole element of one of `lists`."""
    try:
        return msgspec.json.decode(text, type=kind), True
    except msgspec.ValidationError:
        return None, False
    except (msgspec.DecodeError, RecursionError):
        again, complete = _repaired(text, lists)
    try:
        return msgspec.json.decode(again, type=kind), complete
    except (msgspec.DecodeError, RecursionError):
        return None, False


def _repaired(text: bytes, lists: Collection[bytes]) -> tuple[bytes, bool]:
    """Where it stops being JSON, the other parser tells to the byte; Python's NaN, which it takes, becomes null."""
    try:
        return msgspec.json.encode(json.loads(text.decode("latin-1"))), True
    except json.JSONDecodeError as error:
        return whole(text[: error.pos], lists), False
    except (ValueError, OverflowError, RecursionError):
        return b"", False


def whole(text: bytes, lists: Collection[bytes]) -> bytes:
    """Up to the last whole object in a list of one of these names, all brackets closed; empty without such a list."""
    open_: list[tuple[bytes, bytes]] = []        # bracket, name before it
    found, name, name_end = b"", b"", 0
    end = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == b'"':                        # a string that does not end
            break
        if token.startswith(b'"'):
            name, name_end = token[1:-1], match.end()
            continue
        if token in _CLOSES:
            open_.append((token, name if text[name_end : match.start()].strip() == b":" else b""))
        elif not open_ or _CLOSES[open_.pop()[0]] != token:
            break
        inside = bool(open_) and open_[-1][0] == b"[" and open_[-1][1] in lists
        if inside and token in (b"[", b"}"):
            end, found = match.end(), b"".join(_CLOSES[bracket] for bracket, _ in reversed(open_))
    return text[:end] + found


def top_keys(head: bytes) -> set[str]:
    """Keys of the first object, as far as its beginning goes."""
    depth, keys = 0, set()
    for match in _TOKEN.finditer(head):
        token = match[0]
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        elif depth == 1 and head[match.end() : match.end() + 8].lstrip().startswith(b":"):
            keys.add(token[1:-1].decode(errors="replace"))
        if depth <= 0:
            break
    return keys if head.lstrip().startswith(b"{") else set()


def documents(text: bytes) -> Iterator[bytes]:
    """Objects that stand one after another; the last may be cut."""
    start, depth = 0, 0
    for match in _TOKEN.finditer(text):
        if match[0] == b'"':
            break
        if match[0] in (b"{", b"["):
            depth += 1
        elif match[0] in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                yield text[start : match.end()]
                start = match.end()
            if depth < 0:
                break
    if text[start:].strip():
        yield text[start:]
