"""Whether a placement fits, and how much KV: device memory − weights − activations − a reserve → tokens and blocks.

    fit(held, room(device, 0.9), reserve)     Fit(weights_bytes=…, kv_tokens=Span(low=690_000, high=720_000), …)

The reserve is what engines were seen to hold beside what is counted here: graphs, workspaces, fragments, padding. Least
and most of it make the span; nothing but the smallest cannot be fallen short of, so `high` is not sure to be reached.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.catalog.devices.gpus import Device
from pellucid.sim.paper.held import KvHeld


@dataclass(frozen=True, slots=True)
class Span:
    """From the worst to the best that was seen, or that a bound allows."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    def times(self, factor: float) -> Span:
        return Span(self.low * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class Room:
    total_bytes: float
    share_ratio: float             # of it, that the engine may have
    reported: bool                 # by a driver; otherwise the data sheet's

    @property
    def size_bytes(self) -> float:
        return self.total_bytes * self.share_ratio


@dataclass(frozen=True, slots=True)
class Fit:
    """Of one GPU, the fullest."""

    room_bytes: float
    weights_bytes: float
    activations_bytes: float       # at least
    reserve_bytes: Span
    kv_bytes: Span                 # not below 0
    kv_tokens: Span | None         # None where no KV grows with tokens
    blocks_count: Span | None
    requests_count: Span           # of the context that was asked for

    @property
    def fits(self) -> bool:
        """One request at least, with the smallest reserve that was seen."""
        return self.requests_count.high >= 1

    @property
    def surely(self) -> bool:
        """With the largest one, too."""
        return self.requests_count.low >= 1

    @property
    def missing_bytes(self) -> float:
        """What weights, activations and the smallest reserve exceed the room by; 0 where they do not."""
        return max(0.0, self.weights_bytes + self.activations_bytes + self.reserve_bytes.low - self.room_bytes)


def room(device: Device, share_ratio: float) -> Room | None:
    """None where nobody states the device's memory."""
    seen, sheet = device.cells["hbm_reported_bytes"].value, device.cells["hbm_bytes"].value
    total = sheet if seen is None else seen
    return None if total is None else Room(total, share_ratio, seen is not None)


def fit(weights_bytes: float, activations_bytes: float, kv: KvHeld, request_bytes: float, room: Room,
        reserve: Span) -> Fit:  # fmt: skip
    """`request_bytes`: of one request at the context asked for, on this GPU."""
    left = room.size_bytes - weights_bytes - activations_bytes
    there = Span(max(0.0, left - reserve.high), max(0.0, left - reserve.low))
    blocks = Span(there.low // kv.block_bytes, there.high // kv.block_bytes) if kv.block_bytes else None
    tokens = Span(there.low // kv.token_bytes, there.high // kv.token_bytes) if kv.token_bytes else None
    requests = Span(there.low // request_bytes, there.high // request_bytes)
    return Fit(room.size_bytes, weights_bytes, activations_bytes, reserve, there, tokens, blocks, requests)
