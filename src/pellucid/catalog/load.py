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
    short: str = ""        # another name of the flag, with one hyphen
    env: str = ""
    client: str = ""       # what callers change in their requests; nothing that the engine is started with
    config: str = ""       # key in sources.config_json with the present value
    of: str = ""           # for form = "gib" and "bytes": key of what the target is a multiple of; "" is config's
    device: str = ""       # only on this device
    not_device: str = ""   # on every device but this
    needs_config: str = ""  # only where this key of config_json has a value
    makes: float = 1.0     # for form = "switch" and "without": the value that they make
    probe: bool = False    # in the running engine, through the probe: the fact control.<knob>
    form: Literal["value", "word", "switch", "pair", "gib", "bytes", "ceiling", "json", "without"] = "value"
    ceiling: float = 0.0   # for form = "ceiling": the value to set
    keys: dict[str, str] = {}   # for form = "json": key → config key of what stays; "" is the target's
    since: str = ""        # first engine version that has it
    until: str = ""        # first engine version that has it no more


class Knob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    unit: str
    meaning: str
    low: float
    high: float
    change: Literal["restart", "live"]
    fidelity: Literal["lossless", "numbers", "weights", "input"]
    cost: str
    couplings: list[str]
    spellings: list[Spelling]
    choices: list[str] = []     # where unit is "choice"; low and high are then places in it
    live_as: str = ""           # the knob that lowers this one in a running engine


class Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one engine version on one kind of device shows of a fact."""

    engine: str
    version: str           # minor
    device: str            # "any" where nothing of this version ran
    state: Literal["visible", "blind"]
    basis: Literal["run", "signatures"] = "run"


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: str              # the process that sees it; "every" engine process, or the recorder
    meaning: str
    seen: list[Seen]
    only_with: str = ""    # what the engine must be doing, or nothing is said of the fact


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an observation is taken from metrics pages, by columns of the view window_pages."""

    over: str
    at_least: int
    value: str = ""
    numerator: str = ""
    denominator: str = ""


class Observation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the observation matrix. The head of observations.toml says what each key means."""

    area: Literal["prefill_decode", "kv_cache", "moe_speculation", "hardware"]
    meaning: str
    views: list[str]
    needs: list[str]
    facts: list[str]
    over: str
    at_least: int
    absent: str
    worse: Literal["higher", "lower", "neither"]
    only_with: str = ""
    page: Page | None = None
    value: str = ""
    numerator: str = ""
    denominator: str = ""
    least: float = 0.0
    watch_ratio: float = 0.0
    bad_ratio: float = 0.0
    because: str = ""
    baseline: float | None = None
    baseline_source: str = "none"


Entry = TypeVar("Entry", Metric, Knob, Fact, Observation)


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
def observations() -> dict[str, Observation]:
    return read((FOLDER / "observations.toml").read_text(), Observation, "observations.toml")


@cache
def knobs() -> dict[str, Knob]:
    return read((FOLDER / "knobs" / "knobs.toml").read_text(), Knob, "knobs.toml")
