"""Whether two engines fit into a machine's memory, before either is booted. For engines on a CPU; only what is sure.

    need = needs_bytes(words, environ, entry, machine)        of one engine; None where it cannot be known
    fault((need, other_need), machine)                        "" or why they do not

Weights are the model's files, the KV cache what the command gives it, and the processes what the catalog has for them.
An engine that takes a share of the memory needs that share, whatever its model. On devices it is the engine itself that
refuses a share too small for its model, at boot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pellucid.catalog.servers.command_line import CommandLine, Words, model, value
from pellucid.core.units import size
from pellucid.verbs.loop.trial.arms.machine import Machine

GIB = 2**30
WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")


def needs_bytes(words: Words, environ: Mapping[str, str], entry: CommandLine, machine: Machine) -> int | None:
    if machine.devices:
        return None
    share = value(words, entry.share)
    gib, kv = environ.get(entry.kv_gib_env), value(words, entry.kv_bytes)
    try:
        if gib:
            cache_bytes = int(float(gib) * GIB)
        elif kv:
            cache_bytes = int(kv)
        else:
            return int(float(share) * machine.total_bytes) if share else None
    except ValueError:
        return None      # the engine will say what is wrong with it
    return weights_bytes(model(words, entry)) + cache_bytes + entry.process_bytes


def weights_bytes(name: str | None) -> int:
    """0 where they are not in a folder here: then the least that is needed is known all the same."""
    folder = Path(name) if name else None
    if folder is None or not folder.is_dir():
        return 0
    return max(sum(f.stat().st_size for f in folder.glob(kind)) for kind in WEIGHTS)


def fault(needs: Sequence[int | None], machine: Machine) -> str:
    known = [n for n in needs if n is not None]
    if len(known) < len(needs) or sum(known) <= machine.available_bytes:
        return ""
    each = " and ".join(size(n) for n in known)
    who = "the two engines need" if len(known) > 1 else "the engine needs"
    return f"{who} {each} of memory, and {size(machine.available_bytes)} is available"
