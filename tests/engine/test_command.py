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
import json, sys
from vllm.engine import arg_utils
from pellucid_probe.vllm.offline.knobs import server_parser
parser = server_parser(arg_utils)
for line in sys.stdin:
    try:
        args = vars(parser.parse_args(json.loads(line)))
    except SystemExit as error:
        args = {"refused": str(error)}
    print("PARSED " + json.dumps(args, default=lambda v: getattr(v, "__dict__", str(v))), flush=True)
"""
KNOWN: dict[str, Any] = {"kv_cache_bytes": 2**30, "num_gpu_blocks": 1024, "num_speculative_tokens": 4,
                         "speculative_method": "ngram", "device": "cuda"}  # fmt: skip
MORE: tuple[dict[str, Any], ...] = ({}, {"kv_cache_memory_bytes": 2**30, "num_gpu_blocks_override": 100})


def tried(version: str) -> Iterator[tuple[Engine, Spelling, Setting]]:
    for engine in (Engine("vllm", version, {**KNOWN, **more}) for more in MORE):
        for name, knob in knobs().items():
            spelling = fitting(name, engine)
            if spelling is None or not spelling.flag:
                continue
            makes = bool(spelling.makes)
            switch: tuple[Value, ...] = (makes, not makes) if spelling.form == "pair" else (makes,)
            values: tuple[Value, ...] = switch if knob.unit == "switch" else (0.5 if knob.unit == "ratio" else 4,)
            for value in knob.choices or values:
                yield engine, spelling, Setting(name, value)


def parsed(python: Path, commands: list[Command]) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(c.argv) + "\n" for c in commands)
    done = subprocess.run([str(python), "-c", PARSE], input=lines, capture_output=True, text=True, check=True,
                          env={**os.environ, **ENVIRONMENT})  # fmt: skip
    return [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("PARSED ")]


@pytest.mark.parametrize(("python", "version"), [(PYTHON, "0.32.0"), (OLDER, "0.28.0")], ids=["0.32", "0.28"])
def test_the_engines_own_parser_takes_every_change_and_gives_the_value_back(python: Path, version: str) -> None:
    cases = list(tried(version))
    commands = [changed(Command(BEFORE), (one,), engine) for engine, _, one in cases]
    usual, *found = parsed(python, [Command(BEFORE), *commands])
    assert len(found) == len(cases) > 20
    assert [str(one) for (_, _, one), args in zip(cases, found, strict=True) if "refused" in args] == []
    numbers = {one.knob: args for (_, s, one), args in zip(cases, found, strict=True) if s.form == "value"}
    assert numbers["max_running_requests"]["max_num_seqs"] == 4
    assert numbers["step_token_budget"]["max_num_batched_tokens"] == 4
    without_effect = {s.flag for _, s, _ in cases if s.form != "without"} - {
        s.flag for (_, s, _), args in zip(cases, found, strict=True) if args != usual}  # fmt: skip
    assert without_effect == set(), "the parser took the flag, and nothing came of it"
    assert all(str(args["port"]) == "8001" and args["model_tag"] == "tiny" for args in found)
