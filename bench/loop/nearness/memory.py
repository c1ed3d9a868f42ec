"""What engines found free for KV on a device, beside what is counted here, out of their logs.

    reserves(shared)    Reserve(device="NVIDIA H200", model="qwen3-8b", kv_bytes=…, reserve_bytes=1_480_000_000, …), …

The reserve is what is left when weights, activations and KV are taken from the engine's share of the device.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.loop.nearness.models import MODELS
from pellucid.catalog.devices.gpus import devices
from pellucid.catalog.devices.seen import Reserve
from pellucid.physics.cache import CacheFormat
from pellucid.physics.formats import BF16, FP8, Format
from pellucid.physics.memory import activation_bytes
from pellucid.sim.paper.held import kv_on, weights_on
from pellucid.sim.paper.placement import Placement, Way

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Log:
    """What the log, or the command line in it, says; the rest is read from the text. Where it does not say it is taken:
    the default share of 0.92 of the first, and the GPU of gpt-oss, that of the same author's other runs."""

    name: str
    source: str
    model: str
    engine: str
    device: str                    # a key of the catalogue
    share_ratio: float
    step_tokens: int
    requests_count: int
    tp: int = 1
    kv: Format = BF16


LOGS = (
    Log("h200_vllm024/serve.log.gz", "h200_vllm024", "qwen3-8b", "vllm 0.24", "h200", 0.92, 8192, 1024),
    Log("h200_vllm024/qwen3-30b-a3b_offline.log.gz", "h200_vllm024", "qwen3-30b-a3b", "vllm 0.24", "h200", 0.9, 16_384, 1024),  # noqa: E501
    Log("engine_logs/inferencex_vllm_gptoss_tp1_c4_8k1k.log", "gptoss_log", "gpt-oss-120b", "vllm 0.22", "h200", 0.9, 8192, 4),  # noqa: E501
    Log("engine_logs/vllm_0.21_kimi_k25_gb300_server.log.gz", "kimi_log", "kimi-k2.5-nvfp4", "vllm 0.21", "gb300", 0.9, 8192, 128, 4, FP8),  # noqa: E501
)  # fmt: skip
LOADED = re.compile(r"Model loading took ([\d.]+) GiB")
FREE = re.compile(r"Available KV cache memory: ([\d.]+) GiB")
BLOCKS = re.compile(r"Overriding num_gpu_blocks=(\d+)")
RTX_4090 = "perf_runs/llmservingsim_vllm_RTX4090_Llama-3.1-8B/meta.json.gz"


def reserves(shared: Path) -> Iterator[Reserve]:
    for log in LOGS:
        data = (shared / log.name).read_bytes()
        text = (gzip.decompress(data) if log.name.endswith(".gz") else data).decode()
        total = devices()[log.device].cells["hbm_reported_bytes"].value
        assert total is not None
        free = _number(FREE, text) * GIB
        blocks = int(_number(BLOCKS, text))
        yield _reserve(log, devices()[log.device].entry.name, int(total), free, blocks, _number(LOADED, text) * GIB)
    yield _rtx_4090(json.loads(gzip.decompress((shared / RTX_4090).read_bytes())))


def _rtx_4090(said: dict[str, dict[str, float]]) -> Reserve:
    """Not in the catalogue; the run says how much memory it has. Blocks are whole, so up to one block is lost."""
    log = Log("", "servingsim", "llama-3.1-8b", "vllm 0.19", "", said["kv_cache"]["gpu_memory_utilization"], 2048, 256)
    blocks = int(said["kv_cache"]["num_gpu_blocks"])
    each = kv_on(MODELS[log.model], Way(Placement(), 1), 16).block_bytes
    return _reserve(log, str(said["hardware"]["device_name"]), int(said["hardware"]["device_total_memory_bytes"]),
                    blocks * each, blocks, 0.0)  # fmt: skip


def _number(pattern: re.Pattern[str], text: str) -> float:
    found = pattern.search(text)
    return float(found.group(1)) if found else 0.0


def _reserve(log: Log, device: str, total: int, free: float, blocks: int, loaded: float) -> Reserve:
    geometry, way = MODELS[log.model], Way(Placement(log.tp), 8, CacheFormat(log.kv))
    weights = weights_on(geometry, way)
    rows = min(log.step_tokens, log.requests_count)
    active = activation_bytes(geometry, log.step_tokens, rows, log.tp)
    left = total * log.share_ratio - weights - active - free
    return Reserve(device, log.tp, log.model, log.engine, log.source, total, log.share_ratio, round(free), blocks,
                   round(weights), round(loaded), round(active), round(left))  # fmt: skip
