"""The catalog's spellings held against the engine's own argument parser.

    ask(".venv-engine/bin/python")
    → [Held(knob="sequence_cap", spelling="--max-num-active-seqs", there=False, fault="0.28.0 has no …"), …]

A spelling is there if its flag (with its field, its value, its negation) or its variable is. What the catalog says of
versions (`since`, `until`) is not applied here: the parser says it, and a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pellucid.catalog.load import Knob, Spelling, knobs
from pellucid.collect.vllm.plan import parser

ENGINE = "vllm"


@dataclass(frozen=True, slots=True)
class Held:
    knob: str
    spelling: str
    there: bool
    fault: str                          # why it is not there, "" if it is
    type: str | None = None             # as the parser has it; None for a variable and for what is not there
    default: int | float | str | bool | None = None     # None: worked out when the engine starts
    choices: tuple[str, ...] | None = None              # None: not listed by the parser
    lost_choices: tuple[str, ...] = ()                  # ours that the parser does not list


def ask(python: str) -> list[Held]:
    """Of the engine in that Python. Raises as the offline check does: CannotAnswer, Failed."""
    return held(parser(python))


def held(told: Mapping[str, Any]) -> list[Held]:
    """Every spelling that is a flag or a variable; `told` is what the engine's parser said of itself."""
    return [
        _held(name, knob, s, told)
        for name, knob in knobs().items() for s in knob.spellings if s.engine == ENGINE and (s.flag or s.env)
    ]  # fmt: skip


def _held(name: str, knob: Knob, spelling: Spelling, told: Mapping[str, Any]) -> Held:
    version = told["engine_version"]
    if spelling.env:
        there = spelling.env in told["variables"]
        return Held(name, spelling.env, there, "" if there else f"{version} does not read {spelling.env}")
    word, _, fixed = spelling.flag.partition(" ")
    flag, _, part = word.partition(".")
    known = told["flags"].get(flag)
    if known is None:
        return Held(name, spelling.flag, False, f"{version} has no {flag}")
    if part and part not in (known["fields"] or ()):
        return Held(name, spelling.flag, False, f"{version} has no {part} in {flag}")
    if spelling.form == "pair" and not known["negated"]:
        return Held(name, spelling.flag, False, f"{version} has {flag}, and no --no-{flag[2:]}")
    listed = known["fields"][part] if part else known["choices"]
    if fixed and listed is not None and fixed not in listed:
        return Held(name, spelling.flag, False, f"{flag} of {version} does not take {fixed}")
    lost = tuple(c for c in knob.choices if listed is not None and c not in listed)
    kind, default = (None, None) if part else (known["type"], known["default"])
    return Held(name, spelling.flag, True, "", kind, default, tuple(listed) if listed is not None else None, lost)
