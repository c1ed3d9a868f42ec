"""Where the two engines of a trial compute: equal shares, apart from each other.

    places(machine, entry, words, environ)
    → (Place("core 0", env={…: "0"}, memory_ratio=None), Place("core 1", …))

On a CPU: half of the cores each. Left to themselves engines choose the same cores (`auto` binding puts the worker of
every server on core 0), and the second starves. On devices: its own ones each, where there are twice as many as one
engine takes; else the same ones, with half of the memory each. The arms are never loaded at once, so that shared
hardware is shared in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pellucid.catalog.servers.command_line import CommandLine, Words, devices_count, put, value
from pellucid.core.errors import AskedWrongly
from pellucid.verbs.loop.trial.arms.machine import Machine

MEMORY_LEFT_RATIO = 0.9      # chosen: of what is available now, for two engines; the rest is for us and for others


@dataclass(frozen=True, slots=True)
class Place:
    name: str                       # "core 0", "device 1"
    env: Mapping[str, str]
    memory_ratio: float | None      # of the memory there is; None: as the command has it


def places(machine: Machine, entry: CommandLine, words: Words, environ: Mapping[str, str]) -> tuple[Place, Place]:
    """Raises AskedWrongly where the machine has not what one engine takes."""
    halves = _halves(machine.cores)
    cores = [{entry.core_env: ",".join(half)} for half in halves]
    ratio = value(words, entry.share)
    whole = float(ratio) if ratio else entry.share_default
    fixed = value(words, entry.kv_bytes) is not None or bool(environ.get(entry.kv_gib_env))
    if not machine.devices:
        now = MEMORY_LEFT_RATIO * machine.available_bytes / machine.total_bytes
        shared = None if fixed else round(min(whole, now) / 2, 3)
        first, second = (Place(_named("core", half), env, shared) for half, env in zip(halves, cores, strict=True))
        return first, second
    count = devices_count(words, entry)
    if len(machine.devices) < count:
        raise AskedWrongly(f"the command takes {count} devices, and {len(machine.devices)} are visible")
    apart = len(machine.devices) >= 2 * count
    sets = (machine.devices[:count], machine.devices[count: 2 * count] if apart else machine.devices[:count])
    shared = None if apart or fixed else round(whole / 2, 3)
    first, second = (
        Place(_named("device", each) + ("" if apart else ", shared"), {entry.device_env: ",".join(each), **env}, shared)
        for each, env in zip(sets, cores, strict=True)
    )
    return first, second


def whole(machine: Machine) -> Place:
    """For one engine alone: as its user starts it."""
    return Place("devices as given" if machine.devices else "all cores", {}, None)


def placed(words: Words, place: Place, entry: CommandLine) -> Words:
    return words if place.memory_ratio is None else put(words, entry.share, str(place.memory_ratio))


def _halves(cores: tuple[int, ...]) -> tuple[list[str], list[str]]:
    """Equal; an odd core is left to everybody. A single one both have to share."""
    half = len(cores) // 2
    if half == 0:
        return [str(c) for c in cores], [str(c) for c in cores]
    return [str(c) for c in cores[:half]], [str(c) for c in cores[half: 2 * half]]


def _named(thing: str, each: list[str] | tuple[str, ...]) -> str:
    return f"{thing} {each[0]}" if len(each) == 1 else f"{thing}s {', '.join(each)}"
