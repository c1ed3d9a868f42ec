"""Rows of `facts`: what the probe said of itself, and what the recorder alone can say."""

from __future__ import annotations

from typing import Any

from pellucid.store.schema import FACTS
from pellucid.store.write import Row

RECORDER = {"process": "recorder", "role": "recorder", "engine_version": None}


def fact_row(who: dict[str, Any], fact: str, seen: dict[str, Any]) -> Row:
    known = {**who, "fact": fact, **seen}
    return tuple(known.get(name) for name in FACTS.names())


def blind(reason: str, collect: str) -> dict[str, Any]:
    return {"state": "blind", "reason": reason, "collect": collect}


def recorder_rows(no_device: str) -> list[Row]:
    """`no_device`: why there is no device to sample, "" when there is one."""
    device = blind(no_device, "record on the host of the GPU, with its driver") if no_device else {"state": "visible"}
    network = blind("no client or gateway time was sent", "have the client or gateway send X-Request-Start")
    return [fact_row(RECORDER, "device.nvml", device), fact_row(RECORDER, "request.network", network)]
