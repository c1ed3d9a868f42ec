"""`op_shapes.toml` → what the inputs of operators mean.

    attention_of("_vllm_fa3_C::fwd").query_layout   == "THD"
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec


class Attention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: str
    query: int
    key: int
    query_layout: str
    key_layout: str


class Lengths(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: str
    requests: int
    longest_query: int
    longest_context: int


class Routing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: str
    chosen: int
    scores: int


class Gated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: str
    product: int


class OpShapes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    attention: list[Attention]
    lengths: list[Lengths]
    routing: list[Routing]
    gated: list[Gated]


Entry = TypeVar("Entry", Attention, Lengths, Routing, Gated)


@cache
def op_shapes() -> OpShapes:
    return msgspec.toml.decode(Path(__file__).with_name("op_shapes.toml").read_bytes(), type=OpShapes)


def entry_of(entries: list[Entry], op: str) -> Entry | None:
    """The first whose pattern fits the operator's whole name."""
    return next((e for e in entries if re.fullmatch(e.pattern, op)), None)
