"""Whether a candidate has room, before anything boots: what it needs at least, against what there is.

    needs(settings, engine, geometry).parts      (Part("weights", 536_870_912), Part("KV cache", 2_147_483_648), …)
    shortage(needs(…), room, "beside")           "it needs 5.6 GiB at least (…), and 4.1 GiB are free"; "" if it fits

A floor, so a shortage is sure and room is not. What is not known is in `unknown`, and said. Where an engine takes a
share of a device by itself (device_memory_share), that share is what it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.catalog.knobs.spelling import Engine, block_bytes, number
from pellucid.core.units import percent, size
from pellucid.physics.formats import PLAIN
from pellucid.physics.geometry import Geometry
from pellucid.physics.memory import activation_bytes
from pellucid.physics.parameters import weight_bytes
from pellucid.tune.space import Candidate, Value

Way = Literal["live", "beside", "restart"]


@dataclass(frozen=True, slots=True)
class Room:
    """The memory that the model lives in: a device's, or the host's where there is no device."""

    name: str                      # device 0, this container, this host
    total_bytes: int | None
    free_bytes: int | None
    engine_bytes: int | None       # what the present engine has of it, all its processes; None where not measured


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    size_bytes: float


@dataclass(frozen=True, slots=True)
class Needs:
    parts: tuple[Part, ...]
    unknown: tuple[str, ...]       # parts that could not be reckoned, and why
    share_ratio: float | None      # of the device, that the engine takes whatever its parts are
    more_bytes: float | None       # than the present configuration; None where not all parts are known

    @property
    def size_bytes(self) -> float:
        return sum(part.size_bytes for part in self.parts)


def needs(settings: Candidate, engine: Engine, geometry: Geometry | None) -> Needs:
    """`settings` are all that differ from what the engine was recorded with."""
    parts, unknown = _parts({s.knob: s.value for s in settings}, engine, geometry)
    present, _ = _parts({}, engine, geometry)
    more = None if unknown else sum(p.size_bytes for p in parts) - sum(p.size_bytes for p in present)
    return Needs(tuple(parts), tuple(unknown), _share(settings, engine), more)


def shortage(wanted: Needs, room: Room, way: Way) -> str:
    """Why it does not fit, in words; "" where nothing says so. A live knob takes no memory."""
    if way == "live":
        return ""
    there, what = _there(room, way)
    if wanted.share_ratio is not None and room.total_bytes is not None and there is not None:
        takes = wanted.share_ratio * room.total_bytes
        if takes > there:
            return (f"the engine takes {percent(wanted.share_ratio)} of {room.name} by itself, {size(takes)}, and "
                    f"{size(there)} are {what}. Try: device_memory_share")  # fmt: skip
        there, what = takes, "its share"
    least, of = wanted.size_bytes, ", ".join(f"{p.name} {size(p.size_bytes)}" for p in wanted.parts)
    if room.engine_bytes is not None and wanted.more_bytes is not None and wanted.share_ratio is None:
        measured = room.engine_bytes + wanted.more_bytes
        if measured > least:
            least = measured
            of = f"measured of the present engine {size(room.engine_bytes)}, and {size(wanted.more_bytes)} more"
    if there is not None and least > there:
        return f"it needs {size(least)} of {room.name} at least ({of}), and {size(there)} are {what}"
    return ""


def not_known(wanted: Needs, room: Room, way: Way) -> tuple[str, ...]:
    """What the answer leaves out, for the audit log."""
    if way == "live":
        return ()
    there, _ = _there(room, way)
    none = () if there is not None else (f"how much memory {room.name} has is not known, so nothing was compared",)
    return (*wanted.unknown, *none)


def _there(room: Room, way: Way) -> tuple[float | None, str]:
    """After a restart the present engine's memory is free again."""
    if way == "beside" or room.free_bytes is None or room.engine_bytes is None:
        return (room.free_bytes, "free") if way == "beside" else (room.total_bytes, "there")
    return room.free_bytes + room.engine_bytes, "free without the present engine"


def _parts(chosen: dict[str, Value], engine: Engine, geometry: Geometry | None) -> tuple[list[Part], list[str]]:
    config, parts, unknown = engine.config, list[Part](), list[str]()
    tp = max(1, int(number(config.get("tensor_parallel_size")) or 1))
    if geometry is None:
        unknown.append("weights and activations: the model's config.json was not read")
    else:
        parts.append(Part("weights", _weights(chosen, engine, geometry) / tp))
    kv = _kv_bytes(chosen, engine)
    if kv is None:
        unknown.append("KV cache: its size was not recorded")
    else:
        parts.append(Part("KV cache", kv))
    budget, running = (_value(chosen, engine, *names) for names in (
        ("step_token_budget", "max_num_batched_tokens"), ("max_running_requests", "max_num_seqs")))  # fmt: skip
    if geometry is not None and budget is not None and running is not None:
        drafted = _value(chosen, engine, "speculative_tokens", "num_speculative_tokens") or 0
        rows = int(min(budget, running * (1 + drafted)))
        parts.append(Part("activations", activation_bytes(geometry, int(budget), rows, tp)))
    elif geometry is not None:
        unknown.append("activations: the step's token budget was not recorded")
    return parts, unknown


def _weights(chosen: dict[str, Value], engine: Engine, geometry: Geometry) -> float:
    """In the checkpoint's formats, or in what the engine turns plain ones into."""
    stored = weight_bytes(geometry)
    asked = PLAIN.get(str(engine.config.get("dtype") or "").removeprefix("torch."))
    plain = not geometry.quantization.groups and engine.config.get("quantization") is None
    if chosen.get("weights_fp8") and plain:
        return stored * 8 / geometry.dtype.element_bits
    return stored * asked.element_bits / geometry.dtype.element_bits if asked and plain else stored


def _kv_bytes(chosen: dict[str, Value], engine: Engine) -> float | None:
    """Blocks times their size. Keys in fp8 make blocks smaller, and not the cache of a given size."""
    blocks = next((chosen[k] for k in ("kv_cache_limit", "kv_cache_memory") if k in chosen), None)
    each, recorded = block_bytes(engine), number(engine.config.get("kv_cache_bytes"))
    if blocks is None or isinstance(blocks, str):
        return recorded
    return None if each is None else float(blocks) * each


def _share(settings: Candidate, engine: Engine) -> float | None:
    """None where the engine is told its cache's size, or has no device."""
    chosen = {s.knob: s.value for s in settings}
    told = engine.config.get("kv_cache_memory_bytes") is not None or "kv_cache_limit" in chosen
    if told or str(engine.config.get("device") or "cpu") == "cpu":
        return None
    return number(chosen.get("device_memory_share", engine.config.get("gpu_memory_utilization")))


def _value(chosen: dict[str, Value], engine: Engine, knob: str, key: str) -> float | None:
    return number(chosen[knob]) if knob in chosen else number(engine.config.get(key))
