"""A move in the words of one engine: the exact flag or variable, its present value and the new one.

    spell(Move("max_running_requests", "raise", …), 32, engine)
        .setting == "--max-num-seqs 32"      .current == 16

Facts come from `catalog/knobs.toml`; nothing here knows an engine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from pellucid.catalog.load import Knob, Spelling, knobs
from pellucid.core.units import size
from pellucid.diagnose.rule import Move

GIB = 2**30
Setting = int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class Engine:
    """What the recording knows of the engine, from `sources`."""

    name: str
    version: str
    config: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class SpelledMove:
    knob: str
    direction: str
    target: float          # in `unit`
    unit: str
    setting: str           # what to put on the command line or into the environment; "" for an unknown engine
    config: str            # the engine's own name of it in its configuration; "" where it has none
    current: Setting       # present value as the engine spells it; None when it is not known
    change: str            # restart or live
    cost: str


def spell(move: Move, target: float, scale: float | None, engine: Engine) -> SpelledMove | None:
    """None when the engine has the value already or cannot have it here. `scale` is target over present value."""
    knob = knobs()[move.knob]
    same_engine = [s for s in knob.spellings if s.engine == engine.name]
    fitting = next((s for s in same_engine if _fits(s, engine)), None)
    if fitting is None:
        return None if same_engine else _spelled(move, knob, target, "", "", None)
    current = engine.config.get(fitting.config) if fitting.config else None
    measure = engine.config.get(fitting.of) if fitting.of else current
    within = min(max(target, knob.low), knob.high)
    if fitting.form == "json":
        setting = None if _number(current) == within else _object(fitting, within, engine)
    else:
        setting = _setting(fitting, within, scale, current, measure)
    return None if setting is None else _spelled(move, knob, target, setting, fitting.config, current)


def _spelled(move: Move, knob: Knob, target: float, setting: str, config: str, current: Setting) -> SpelledMove:
    return SpelledMove(
        move.knob, move.direction, target, knob.unit, setting, config, current, knob.change, move.cost
    )


def _fits(spelling: Spelling, engine: Engine) -> bool:
    device = str(engine.config.get("device") or "")
    return (
        (not spelling.device or spelling.device == device)
        and (not spelling.not_device or spelling.not_device != device)
        and (not spelling.needs_config or engine.config.get(spelling.needs_config) is not None)
        and (not spelling.since or _version(engine.version) >= _version(spelling.since))
        and (not spelling.until or _version(engine.version) < _version(spelling.until))
    )


def _setting(
    spelling: Spelling, target: float, scale: float | None, current: Setting, measure: Setting
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
        have = _number(current)
        return None if have is not None and have >= spelling.ceiling else f"{name}{join}{spelling.ceiling:g}"
    if spelling.form == "value":
        return None if _number(current) == target else f"{name}{join}{target:.0f}"
    have = _number(measure)
    if have is None or scale is None:
        whose = "the size of the KV cache" if spelling.of else "its present value"
        return None if scale is None else f"{name}: {scale:.2f} times {whose}"
    wanted_bytes = have * scale
    wanted = wanted_bytes / GIB if spelling.form == "gib" else wanted_bytes
    return f"{name}{join}{math.ceil(wanted)}"


def _object(spelling: Spelling, target: float, engine: Engine) -> str:
    """The flag with the whole object: the target, and the present values beside it. A text is not said twice."""
    parts: dict[str, Setting] = {}
    for key, config in spelling.keys.items():
        value = engine.config.get(config) if config else round(target)
        if value is not None and not (isinstance(value, str) and value in parts.values()):
            parts[key] = value
    return f"{spelling.flag} '{json.dumps(parts)}'"


def shown(move: SpelledMove, config: Mapping[str, Setting]) -> str:
    """The present value as a reader wants it. Recorded as null it is not set; not recorded, it is not known."""
    if move.config.endswith("_bytes") and (have := _number(move.current)) is not None:
        return size(have)
    if move.current is None:
        return "not set" if move.config in config else "not known"
    return str(move.current)


def _number(value: Setting) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _version(text: str) -> tuple[int, ...]:
    parts = []
    for part in text.split("."):
        digits = "".join(c for c in part if c.isdigit())
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)
