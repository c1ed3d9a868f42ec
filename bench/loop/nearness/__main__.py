"""Writes src/pellucid/catalog/devices/seen.toml, or compares it; then says how well the ranges made of it hold.

    python -m bench.loop.nearness --shared FOLDER            writes the file
    python -m bench.loop.nearness --shared FOLDER --check    exit 1 where it differs

FOLDER has the public runs and logs that the sources of the file name.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.loop.nearness.memory import reserves
from bench.loop.nearness.page import reserve_table, said_of, speed_table
from bench.loop.nearness.runs import speeds
from pellucid.catalog.devices import seen as catalogue
from pellucid.catalog.devices.seen import Reserve, Speed

ROOT = Path(__file__).parents[3]
FILE = Path(catalogue.__file__).with_name(catalogue.FILE)
HEAD = """# What engines were seen to do on devices, made by `python -m bench.loop.nearness`: change that instead.
#
# speeds     a step's parts one after another, each at its data sheet's roof (in_turn_ns); what it took (taken_ns)
# reserves   what an engine held of its share of a device beside weights, activations at their least, and KV
"""
SOURCES = {
    "gptoss_sweep": "GloriaXimingLu/inferencex-profiling 237385bf67e6: gpt-oss-120b, one H200, prompts of some 7,200 and outputs of some 900 tokens, by concurrency",  # noqa: E501
    "qwen_vl": "bowenwan6/sglang-vllm-profiler 454fdb0aaaaa: Qwen3-VL-8B, text alone, one H200, concurrency 1 and 16",
    "golden_moe_uniform": "tests/golden/device/moe-uniform: DeepSeek-V2-Lite shapes, random weights, one H200",
    "golden_moe_skewed": "tests/golden/device/moe-skewed: the same, routing by a normal distribution",
    "golden_sampling": "tests/golden/device/sampling: Qwen3-0.6B shapes, random weights, one H200",
    "h200_vllm024": "pellucid, on one H200, 2026: logs of engines with Qwen3-8B and Qwen3-30B-A3B shapes",
    "gptoss_log": "GloriaXimingLu/inferencex-profiling 237385bf67e6: the log of an engine with gpt-oss-120b",
    "kimi_log": "Prathmesh234/mutliturn-inferenceX 21cc5b92ddc7: the log of an engine with Kimi-K2.5 in NVFP4 on GB300",
    "servingsim": "casys-kaist/LLMServingSim 5daddb21a545: what an engine with Llama-3.1-8B on an RTX 4090 says",
}


def text(found: Sequence[Speed], kept: Sequence[Reserve]) -> str:
    parts = [HEAD, "[sources]"]
    parts += [f'{key} = "{words}"' for key, words in SOURCES.items()]
    for name, rows in (("speeds", found), ("reserves", kept)):
        for row in rows:
            parts += ["", f"[[{name}]]"]
            parts += [f"{key} = {_toml(value)}" for key, value in msgspec.to_builtins(row).items()]
    return "\n".join(parts) + "\n"


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:_}"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--shared", type=Path, default=ROOT.parent / "shared" / "data")
    options.add_argument("--check", action="store_true")
    args = options.parse_args()
    found = list(speeds(args.shared, ROOT / "tests" / "golden"))
    kept = list(reserves(args.shared))
    made = text(found, kept)
    print("\n".join((*speed_table(found), "", *reserve_table(kept), "", *said_of(found))))
    if args.check:
        return 0 if made == FILE.read_text() else 1
    FILE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
