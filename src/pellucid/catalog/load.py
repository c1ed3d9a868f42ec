"""TOML → frozen records. Strict: an unknown key, a missing key or a wrong type is refused with the file's name.

    metrics()["itl_p99_ns"].better            == "lower"
    knobs()["max_running_requests"].spellings[0].flag
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

FOLDER = Path(__file__).parent


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    unit: str
    better: Literal["lower", "higher"]
    definition: str
    otel: str = ""         # OpenTelemetry's name; "" where there is none


class Spelling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an engine writes a knob. An empty text means: does not apply."""

    engine: str
    flag: str = ""
    env: str = ""
    config: str = ""       # key in sources.config_json with the present value
    device: str = ""       # only on this device
    not_device: str = ""   # on every device but this
    needs_config: str = ""  # only where this key of config_json has a value
    form: Literal["value", "switch", "gib", "bytes", "ceiling"] = "value"
    ceiling: float = 0.0   # for form = "ceiling": the value to set
    since: str = ""        # first engine version that has it
    until: str = ""        # first engine version that has it no more


class Knob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    unit: str
    meaning: str
    low: float
    high: float
    change: Literal["restart", "live"]
    cost: str
    couplings: list[str]
    spellings: list[Spelling]


class Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one engine version on one kind of device shows of a fact."""

    engine: str
    version: str           # minor
    device: str
    state: Literal["visible", "blind"]


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: str              # the process that sees it; "every" engine process, or the recorder
    meaning: str
    seen: list[Seen]


Entry = TypeVar("Entry", Metric, Knob, Fact)


def read(text: str, kind: type[Entry], name: str) -> dict[str, Entry]:
    """Raises ValueError that names the file and the key."""
    try:
        return msgspec.toml.decode(text, type=dict[str, kind])  # type: ignore[valid-type]
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"{name}: {error}") from error


@cache
def metrics() -> dict[str, Metric]:
    return read((FOLDER / "metrics.toml").read_text(), Metric, "metrics.toml")


@cache
def facts() -> dict[str, Fact]:
    return read((FOLDER / "facts.toml").read_text(), Fact, "facts.toml")


@cache
def knobs() -> dict[str, Knob]:
    return read((FOLDER / "knobs.toml").read_text(), Knob, "knobs.toml")
