"""What engines were seen to do on devices → frozen records: how near a step came to its roof, what was left over.

    seen().speeds[0]      Speed(device="h200", phase="decode", in_turn_ns=1_104_000, …).ratio == 0.26
    seen().reserves[0]    Reserve(device="h200", reserve_bytes=1_480_000_000, …)

seen.toml is made by bench/loop/nearness from recordings and public runs; its head says how. Strict, as the devices are.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

FILE = "seen.toml"
Phase = Literal["decode", "prompt", "first", "steady"]


class Speed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    device: str
    gpus_count: int
    phase: Phase
    model: str
    weights: str                   # the format of its matrices
    engine: str
    source: str                    # key of the file's [sources]
    batch_count: int               # requests in the step; 1 for a prompt alone
    prompt_tokens: int             # of a prompt; 0 where only decodes were looked at
    output_tokens: int             # of a request; 0 where only steps were looked at
    context_tokens: int            # of a decode; 0 for prompts
    calls_count: float             # operations that were launched
    in_turn_ns: float              # the step's parts one after another, each at its roof
    taken_ns: float

    @property
    def ratio(self) -> float:
        return self.in_turn_ns / self.taken_ns


class Reserve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    device: str                    # as the driver prints it
    gpus_count: int
    model: str
    engine: str
    source: str
    total_bytes: int               # of the device
    share_ratio: float
    kv_bytes: float                # that the engine found free for KV, on one GPU
    blocks_count: int              # 0 where it does not say
    weights_bytes: float           # as counted here
    loaded_bytes: float            # as the engine says; 0 where it does not
    activations_bytes: float       # as counted here
    reserve_bytes: float           # the share − weights − activations − KV

    @property
    def of_device_ratio(self) -> float:
        return self.reserve_bytes / self.total_bytes


class Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sources: dict[str, str]
    speeds: list[Speed]
    reserves: list[Reserve]


def read_seen(text: str, name: str = FILE) -> Seen:
    """Raises ValueError that names the file and what is wrong."""
    try:
        found = msgspec.toml.decode(text, type=Seen)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"{name}: {error}") from error
    unlisted = {*(s.source for s in found.speeds), *(r.source for r in found.reserves)} - found.sources.keys()
    if unlisted:
        raise ValueError(f"{name}: sources that are not listed: {', '.join(sorted(unlisted))}")
    wrong = next((row for row in found.speeds if not 0 < row.ratio < 1), None)
    if wrong is not None:
        raise ValueError(f"{name}: {wrong.model}, {wrong.phase} of {wrong.batch_count}: {wrong.ratio:.2f} of the roof")
    return found


@cache
def seen() -> Seen:
    return read_seen((Path(__file__).with_name(FILE)).read_text())
