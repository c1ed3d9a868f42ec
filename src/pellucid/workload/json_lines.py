"""Traces of JSON lines → requests.

    {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}        mooncake: in ms
    {"arrival_time_ns": 46926808, "input_toks": 10, "output_toks": 70, "input_tok_ids": [1, …]}     llmservingsim

Token ids become keyed hashes of whole blocks; the ids themselves are in no workload.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from pellucid.core.units import MS_NS
from pellucid.workload.csv_shapes import note_end, with_last
from pellucid.workload.fields import BLOCKS, CUT, UNREADABLE, Unfit, checked_tokens, prompt, scaled_ns
from pellucid.workload.lines import Lines
from pellucid.workload.rows import Request, Rows

MOONCAKE_BLOCK_TOKENS = 512     # kvcache-ai/Mooncake, FAST25 release: "hash_ids" are of 512 tokens each
BLOCK_TOKENS = 16               # where token ids are given: the smallest block engines have by default
WRAP = 2**64                    # hashes may be unsigned


class Mooncake(msgspec.Struct):
    """`session_id` and `delay` (ms since the session's last answer) as AIPerf's traces of the same kind have them."""

    input_length: int
    output_length: int | None = None
    timestamp: int | float | None = None
    hash_ids: list[int] | None = None
    session_id: str | int | None = None
    delay: int | float | None = None


class LlmServingSim(msgspec.Struct):
    input_toks: int
    output_toks: int | None = None
    arrival_time_ns: int | float | None = None
    input_tok_ids: list[int] | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    marks: frozenset[str]                              # keys that its lines have
    request: Callable[[bytes, bytes], Request]         # line, key of hashes


def kind_of(line: str) -> Kind | None:
    try:
        value = msgspec.json.decode(line.encode())
    except (msgspec.MsgspecError, RecursionError):
        return None
    return next((k for k in KINDS if isinstance(value, dict) and k.marks <= value.keys()), None)


def read_json_lines(lines: Lines, kind: Kind, key: bytes, rows: Rows) -> None:
    """Adds the file's requests. `key`: of the hashes of token ids. Raises OSError."""
    for text, last in with_last(iter(lines)):
        rows.read_count += 1
        try:
            rows.add(kind.request(text.encode(), key))
        except (Unfit, msgspec.MsgspecError, RecursionError) as error:
            reason = str(error) if isinstance(error, Unfit) else UNREADABLE
            rows.left_out[CUT if last and lines.open_end else reason] += 1
    if lines.cut or lines.too_long_count:          # a line of JSON that reads is whole
        note_end(lines, rows)


def hashes(token_ids: Sequence[int], block_tokens: int, key: bytes) -> list[int]:
    """A number for each whole block, of its tokens and all before it."""
    found, before = [], b""
    for start in range(0, len(token_ids) - block_tokens + 1, block_tokens):
        text = ",".join(map(str, token_ids[start : start + block_tokens]))
        before = blake2b(before + text.encode(), digest_size=8, key=key).digest()
        found.append(int.from_bytes(before, "little", signed=True))
    return found


def _mooncake(line: bytes, _: bytes) -> Request:
    said = msgspec.json.decode(line, type=Mooncake)
    length = prompt(checked_tokens(said.input_length))
    if said.hash_ids is not None and len(said.hash_ids) > -(-length // MOONCAKE_BLOCK_TOKENS):
        raise Unfit(BLOCKS)
    return Request(
        length, _checked(said.output_length), _moment(said.timestamp, MS_NS),
        None if said.hash_ids is None else [_signed(h) for h in said.hash_ids],
        None if said.hash_ids is None else MOONCAKE_BLOCK_TOKENS,
        session=None if said.session_id in (None, "") else str(said.session_id), think_ns=_moment(said.delay, MS_NS),
    )  # fmt: skip


def _llmservingsim(line: bytes, key: bytes) -> Request:
    said = msgspec.json.decode(line, type=LlmServingSim)
    length = prompt(checked_tokens(said.input_toks))
    ids = said.input_tok_ids
    if ids is not None and len(ids) != length:
        raise Unfit(BLOCKS)
    return Request(
        length, _checked(said.output_toks), _moment(said.arrival_time_ns, 1),
        None if ids is None else hashes(ids, BLOCK_TOKENS, key), None if ids is None else BLOCK_TOKENS,
    )  # fmt: skip


def _checked(count: int | None) -> int | None:
    return None if count is None else checked_tokens(count)


def _moment(value: float | None, unit_ns: int) -> int | None:
    return None if value is None else scaled_ns(str(value), unit_ns)


def _signed(value: int) -> int:
    if not -WRAP // 2 <= value < WRAP:
        raise Unfit(UNREADABLE)
    return value if value < WRAP // 2 else value - WRAP


KINDS = (
    Kind("mooncake", frozenset(("input_length",)), _mooncake),
    Kind("llmservingsim", frozenset(("input_toks",)), _llmservingsim),
)
