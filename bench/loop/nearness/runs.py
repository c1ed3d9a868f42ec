"""Times of real steps, out of public benchmark results and our recordings on a device.

    speeds(shared, golden)     Speed(device="h200", phase="decode", model="gpt-oss-120b", batch_count=16, …), …

decode    a client's median token gap at a concurrency, or the median gap of a recording's steps that only decode
prompt    what one prompt more takes: a client's mean time for a token, less the median gap, by the tokens of a request;
          or the median gap of a recording's steps that only prefill and are full
first     a client's median TTFT with one request at a time
steady    concurrency ÷ output tokens a second: a step with its share of prompts

Left out: steps without device graphs, a device that somebody else uses too, loads at which requests queue.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from bench.loop.nearness.models import MODELS
from pellucid.catalog.devices.gpus import devices
from pellucid.catalog.devices.seen import Phase, Speed
from pellucid.core.units import MS_NS, S_NS
from pellucid.physics.ceilings import peak_ceilings
from pellucid.sim.paper.placement import Placement, Way
from pellucid.sim.paper.speed import Model, Timing, Traffic, decode_time, more_prompts, prompt_time, steady_time

FEW = 16                   # below, a difference of two times is all noise
QUEUES_FROM = 256          # gpt-oss at 256 waits for KV, says its author: a median gap is not one of steps then
GAPS = """
    WITH s AS (SELECT *, end_ns - lag(end_ns) OVER w AS gap_ns, lag(decode_requests_count) OVER w AS decoded_count,
                      lag(prefill_tokens) OVER w AS prefilled_tokens
               FROM read_parquet(?) WINDOW w AS (PARTITION BY process ORDER BY step))
"""
DECODES = GAPS + """
    SELECT decode_requests_count, median(gap_ns), avg(kv_used_blocks_count) * 16 / any_value(decode_requests_count)
    FROM s WHERE prefill_tokens = 0 AND prefilled_tokens = 0 AND decoded_count = decode_requests_count
    GROUP BY ALL HAVING count(*) >= 50 ORDER BY 1"""
PROMPTS = GAPS + """
    SELECT prefill_tokens, median(gap_ns) FROM s
    WHERE decode_requests_count = 0 AND prefill_tokens > 500 GROUP BY ALL HAVING count(*) >= 20 ORDER BY 1"""


def speeds(shared: Path, golden: Path) -> Iterator[Speed]:
    yield from _gpt_oss(shared / "perf_runs/gptoss120b_h200/vanilla")
    yield from _qwen_vl(shared / "perf_runs/qwen3vl8b_h200_sglang_vs_vllm")
    for folder, model in (("moe-skewed", "deepseek-v2-lite"), ("moe-uniform", "deepseek-v2-lite"),
                          ("sampling", "qwen3-0.6b")):  # fmt: skip
        yield from _recorded(golden / "device" / folder, model)


def model_on_h200(name: str) -> Model:
    ceilings = peak_ceilings(devices()["h200"])
    return Model(MODELS[name], Way(Placement(), 8, precisions=ceilings.precisions), ceilings)


@dataclass(frozen=True, slots=True)
class Of:
    """Whose rows these are."""

    model: str
    engine: str
    source: str
    batch: int

    def row(self, phase: Phase, turn: Timing, taken_ns: float, prompt: int = 0, output: int = 0,
            context: int = 0) -> Speed:  # fmt: skip
        groups = MODELS[self.model].quantization.groups
        return Speed("h200", 1, phase, self.model, groups[0][1].name if groups else "bf16", self.engine, self.source,
                     self.batch, prompt, output, context, round(turn.calls_count), round(turn.in_turn_ns),
                     round(taken_ns))  # fmt: skip


def _gpt_oss(folder: Path) -> Iterator[Speed]:
    for path in sorted(folder.glob("sweep_c*.json"), key=lambda p: int(p.stem.removeprefix("sweep_c"))):
        yield from _client(json.loads(path.read_text()), "gpt-oss-120b", "vllm 0.22", "gptoss_sweep")


def _qwen_vl(folder: Path) -> Iterator[Speed]:
    for case in ("caseA_short", "caseC_batched"):
        for engine in ("vllm", "sglang-oai"):
            text = gzip.decompress((folder / f"{case}_{engine}_rep1.json.gz").read_bytes()).decode()
            yield from _client(json.loads(text.splitlines()[0]), "qwen3-8b", engine.removesuffix("-oai"), "qwen_vl")


def _client(said: dict[str, Any], name: str, engine: str, source: str) -> Iterator[Speed]:
    model, batch, n = model_on_h200(name), int(said["max_concurrency"]), said["completed"]
    if batch >= QUEUES_FROM:
        return
    of, gap_ns, mean_ns = Of(name, engine, source, batch), said["median_itl_ms"] * MS_NS, S_NS * batch
    mean_ns /= said["output_throughput"]
    traffic = Traffic(round(said["total_input_tokens"] / n), round(said["total_output_tokens"] / n), batch)
    prompt, output, context = traffic.prompt_tokens, traffic.output_tokens, traffic.context_tokens
    yield of.row("decode", decode_time(model, batch, context), gap_ns, context=context)
    yield of.row("steady", steady_time(model, traffic, batch), mean_ns, prompt, output, context)
    if batch == 1:
        yield of.row("first", prompt_time(model, prompt), said["median_ttft_ms"] * MS_NS, prompt)
    elif batch >= FEW:
        yield of.row("prompt", more_prompts(model, prompt), (mean_ns - gap_ns) * output / batch, prompt)


def _recorded(folder: Path, name: str) -> Iterator[Speed]:
    model, files = model_on_h200(name), str(folder / "steps-*.parquet")
    source = f"golden_{folder.name.replace('-', '_')}"
    for batch, gap_ns, context in duckdb.execute(DECODES, [files]).fetchall():
        timing = decode_time(model, batch, round(context))
        yield Of(name, "vllm 0.24", source, batch).row("decode", timing, gap_ns, context=round(context))
    for tokens, gap_ns in duckdb.execute(PROMPTS, [files]).fetchall():
        # Prompts of 8,000 that run one into the other: a token sees half of one on average, as a prompt's own does.
        timing = prompt_time(model, tokens)
        yield Of(name, "vllm 0.24", source, 1).row("prompt", timing, gap_ns, tokens)
