"""Which spelling of a knob an engine takes: engine, version, device and what is configured decide.

    engine = Engine("vllm", "0.32.0", {"device": "cpu", "max_num_seqs": 16, …})     `sources.config_json`
    fitting("max_running_requests", engine).flag       "--max-num-seqs"
    number(engine.config.get("max_num_seqs"))          16.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pellucid.catalog.load import Spelling, knobs

GIB = 2**30
Plain = int | float | bool | str | None      # a value of a configuration; None where the engine says it is not set


@dataclass(frozen=True, slots=True)
class Engine:
    """What the recording knows of the engine, from `sources`."""

    name: str
    version: str
    config: Mapping[str, Plain]


def fitting(knob: str, engine: Engine) -> Spelling | None:
    """The first spelling that this engine takes; None where it has none, or not on this device or version."""
    return next((s for s in knobs()[knob].spellings if s.engine == engine.name and _fits(s, engine)), None)


def number(value: Plain) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def whole(spelling: Spelling, target: float, engine: Engine) -> dict[str, Plain]:
    """For form = "json": the target, and the present values beside it. A text is not said twice."""
    parts: dict[str, Plain] = {}
    for key, config in spelling.keys.items():
        value = engine.config.get(config) if config else round(target)
        if value is not None and not (isinstance(value, str) and value in parts.values()):
            parts[key] = value
    return parts


def block_bytes(engine: Engine) -> float | None:
    """What a KV block takes on each device; None where its cache was not recorded."""
    cache, blocks = number(engine.config.get("kv_cache_bytes")), number(engine.config.get("num_gpu_blocks"))
    return cache / blocks if cache and blocks else None


def _fits(spelling: Spelling, engine: Engine) -> bool:
    device = str(engine.config.get("device") or "")
    return (
        (not spelling.device or spelling.device == device)
        and (not spelling.not_device or spelling.not_device != device)
        and (not spelling.needs_config or engine.config.get(spelling.needs_config) is not None)
        and (not spelling.since or _version(engine.version) >= _version(spelling.since))
        and (not spelling.until or _version(engine.version) < _version(spelling.until))
    )


def _version(text: str) -> tuple[int, ...]:
    parts = []
    for part in text.split("."):
        digits = "".join(c for c in part if c.isdigit())
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)
