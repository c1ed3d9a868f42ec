"""`step_labels.toml` → compiled patterns.

    read("execute_context_8(8000)_generation_0(0)")   → Label(phase="prefill", prefill_requests=8, …)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec


class Pattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: str
    pattern: str
    source: str
    kinds: dict[str, str] = {}


class _File(msgspec.Struct, forbid_unknown_fields=True):
    label: list[Pattern]


@dataclass(frozen=True, slots=True)
class Label:
    """What the name of a step's range says. None is not said."""

    text: str
    step: int | None = None                 # the engine's number of the step
    part: str | None = None                 # of a step in several ranges
    phase: str | None = None
    prefill_requests: int | None = None
    prefill_tokens: int | None = None
    decode_requests: int | None = None
    decode_tokens: int | None = None


@cache
def patterns() -> tuple[tuple[re.Pattern[str], Pattern], ...]:
    found = msgspec.toml.decode(Path(__file__).with_name("step_labels.toml").read_bytes(), type=_File)
    return tuple((re.compile(p.pattern), p) for p in found.label)


def read(name: str) -> Label | None:
    """None for a range that is no step's."""
    for compiled, pattern in patterns():
        if match := compiled.fullmatch(name):
            return _label(name, match.groupdict(), pattern)
    return None


def _label(name: str, said: dict[str, str | None], pattern: Pattern) -> Label:
    numbers = {k: int(v) for k, v in said.items() if v is not None and k not in ("part", "kind")}
    kind = said.get("kind")
    if kind is None:
        phase = _phase(numbers.get("prefill_requests"), numbers.get("decode_requests"))
        return Label(name, part=said.get("part"), phase=phase, **numbers)
    phase, requests, tokens = pattern.kinds.get(kind), numbers["requests"], numbers.get("tokens")
    if phase == "prefill":
        return Label(name, None, None, phase, requests, tokens, 0, 0)
    if phase == "decode":
        return Label(name, None, None, phase, 0, 0, requests, requests if tokens is None else tokens)
    return Label(name, phase=phase)


def _phase(prefills: int | None, decodes: int | None) -> str | None:
    if not prefills and not decodes:
        return None
    return "decode" if not prefills else "mixed" if decodes else "prefill"
