"""Every knob's flag, in a command as users write it, through the engine's own argument parser.

Variables are not parsed there, and a knob of one is left to the catalog's test. The device is not asked: a parser takes
flags of all devices.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pellucid.catalog.knobs.spelling import Engine, fitting
from pellucid.catalog.load import Spelling, knobs
from pellucid.tune.command import Command, changed
from pellucid.tune.space import Setting, Value
from tools.real_engine import ENVIRONMENT, OLDER, PYTHON

BEFORE = ("tiny", "--max_num_seqs=8", "--max-num-batched-tokens", "4096", "--port", "8001")
PARSE = """
import dataclasses, json, sys
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
parser.add_argument("--port")
parser.add_argument("model_tag")
for line in sys.stdin:
    try:
        args = vars(parser.parse_args(json.loads(line)))
    except SystemExit as error:
        args = {"refused": str(error)}
    print("PARSED " + json.dumps(args, default=lambda v: getattr(v, "__dict__", str(v))), flush=True)
"""
KNOWN: dict[str, Any] = {"kv_cache_bytes": 2**30, "num_gpu_blocks": 1024, "num_speculative_tokens": 4,
                         "speculative_method": "ngram", "device": "cuda"}  # fmt: skip
ENGINES = [
    Engine("vllm", "0.32.0", {**KNOWN, **more})
    for more in ({}, {"kv_cache_memory_bytes": 2**30, "num_gpu_blocks_override": 100})
]


def tried() -> Iterator[tuple[Engine, Spelling, Setting]]:
    for engine in ENGINES:
        for name, knob in knobs().items():
            spelling = fitting(name, engine)
            if spelling is None or not spelling.flag:
                continue
            value: Value = bool(spelling.makes) if knob.unit == "switch" else 0.5 if knob.unit == "ratio" else 4
            yield engine, spelling, Setting(name, value)


def parsed(python: Path, commands: list[Command]) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(c.argv) + "\n" for c in commands)
    done = subprocess.run([str(python), "-c", PARSE], input=lines, capture_output=True, text=True, check=True,
                          env={**os.environ, **ENVIRONMENT})  # fmt: skip
    return [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("PARSED ")]


@pytest.mark.parametrize("python", [PYTHON, OLDER], ids=["0.32", "0.28"])
def test_the_engines_own_parser_takes_every_change_and_gives_the_value_back(python: Path) -> None:
    cases = list(tried())
    commands = [changed(Command(BEFORE), (one,), engine) for engine, _, one in cases]
    usual, *found = parsed(python, [Command(BEFORE), *commands])
    assert len(found) == len(cases) > 20
    assert [str(one) for (_, _, one), args in zip(cases, found, strict=True) if "refused" in args] == []
    numbers = {one.knob: args for (_, s, one), args in zip(cases, found, strict=True) if s.form == "value"}
    assert numbers["max_running_requests"]["max_num_seqs"] == 4
    assert numbers["step_token_budget"]["max_num_batched_tokens"] == 4
    same = [str(one) for (_, s, one), args in zip(cases, found, strict=True) if args == usual and s.form != "without"]
    assert same == [], "the parser took the flag, and nothing came of it"
    assert all(args["port"] == "8001" and args["model_tag"] == "tiny" for args in found)
