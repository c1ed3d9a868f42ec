"""A move in the words of one engine: the exact flag or variable, its present value and the new one.

    spell(Move("max_running_requests", "raise", …), 32, engine)
        .setting == "--max-num-seqs 32"      .current == 16

Facts come from `catalog/knobs/knobs.toml`; nothing here knows an engine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from pellucid.catalog.knobs.spelling import GIB, Engine, Plain, fitting, number, whole
from pellucid.catalog.load import Knob, Spelling, knobs
from pellucid.core.units import size
from pellucid.diagnose.rule import Move


@dataclass(frozen=True, slots=True)
class SpelledMove:
    knob: str
    direction: str
    target: float          # in `unit`
    unit: str
    setting: str           # what to put on the command line or into the environment; "" for an unknown engine
    config: str            # the engine's own name of it in its configuration; "" where it has none
    current: Plain       # present value as the engine spells it; None when it is not known
    change: str            # restart or live
    cost: str


def spell(move: Move, target: float, scale: float | None, engine: Engine) -> SpelledMove | None:
    """None when the engine has the value already or cannot have it here. `scale` is target over present value."""
    knob = knobs()[move.knob]
    spelling = fitting(move.knob, engine)
    if spelling is None:
        known = any(s.engine == engine.name for s in knob.spellings)
        return None if known else _spelled(move, knob, target, "", "", None)
    current = engine.config.get(spelling.config) if spelling.config else None
    measure = engine.config.get(spelling.of) if spelling.of else current
    within = min(max(target, knob.low), knob.high)
    if spelling.form == "json":
        same = number(current) == within
        setting = None if same else f"{spelling.flag} '{json.dumps(whole(spelling, within, engine))}'"
    else:
        setting = _setting(spelling, within, scale, current, measure)
    return None if setting is None else _spelled(move, knob, target, setting, spelling.config, current)


def _spelled(move: Move, knob: Knob, target: float, setting: str, config: str, current: Plain) -> SpelledMove:
    return SpelledMove(
        move.knob, move.direction, target, knob.unit, setting, config, current, knob.change, move.cost
    )


def _setting(
    spelling: Spelling, target: float, scale: float | None, current: Plain, measure: Plain
) -> str | None:
    """`measure` is what bytes are computed from: the present value, or that of another key."""
    name = spelling.flag or spelling.env or spelling.client
    join = "=" if spelling.env else " "
    if spelling.form == "without":
        return None if current is None else f"without {name}"
    if spelling.form == "switch":
        return None if current is True else name
    if spelling.form == "pair":
        on = target > 0
        return None if current is on else name if on else f"--no-{name[2:]}"
    if spelling.form == "word":      # one of the choices: no direction leads there
        return None
    if spelling.form == "ceiling":
        have = number(current)
        return None if have is not None and have >= spelling.ceiling else f"{name}{join}{spelling.ceiling:g}"
    if spelling.form == "value":
        return None if number(current) == target else f"{name}{join}{target:.0f}"
    have = number(measure)
    if have is None or scale is None:
        whose = "the size of the KV cache" if spelling.of else "its present value"
        return None if scale is None else f"{name}: {scale:.2f} times {whose}"
    wanted_bytes = have * scale
    wanted = wanted_bytes / GIB if spelling.form == "gib" else wanted_bytes
    return f"{name}{join}{math.ceil(wanted)}"


def shown(move: SpelledMove, config: Mapping[str, Plain]) -> str:
    """The present value as a reader wants it. Recorded as null it is not set; not recorded, it is not known."""
    if move.config.endswith("_bytes") and (have := number(move.current)) is not None:
        return size(have)
    if move.current is None:
        return "not set" if move.config in config else "not known"
    return str(move.current)
