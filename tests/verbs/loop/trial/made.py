"""What tests of trials start from: a workload, a command that stands for an engine, a wish."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from pellucid.tune.effect.aim import Aim
from pellucid.verbs.loop.trial.outcome import Outcome
from pellucid.verbs.loop.trial.run import run
from pellucid.verbs.loop.trial.wish import Wish
from pellucid.workload.file import SCHEMA, About, Workload, write

STUB = Path(__file__).with_name("stub.py")


def workload(path: Path, gap_s: float, prompt: int, output: int, count: int = 400) -> Path:
    """Requests at equal distances, alike in length."""
    rows: list[dict[str, Any]] = [
        {"arrival_ns": int(i * gap_s * 1e9), "prompt_tokens": prompt, "output_tokens": output} for i in range(count)
    ]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    write(Workload(About("made", "test", requests_count=count, read_count=count), table), path)
    return path


def stub_command(folder: Path, *flags: str) -> tuple[str, ...]:
    """A program called vllm, as an engine's is."""
    program = folder / "vllm"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {STUB} \"$@\"\n")
    program.chmod(0o755)
    return (str(program), "serve", "m", *flags)


def plain(folder: Path, control: bool) -> tuple[str, ...]:    # noqa: ARG001
    """Nothing before the command: it is not recorded."""
    return ()


def stub_wish(folder: Path, *flags: str, **changes: Any) -> Wish:
    """A trial of a second or two: short blocks, no recorder, bias known to be small."""
    wish = Wish(
        settings=("max_num_seqs=7",), command=stub_command(folder, *flags), home=folder / "home", budget_s=40.0,
        workload=workload(folder / "w.parquet", gap_s=0.02, prompt=8, output=4), launcher=plain,
        aim=Aim("tpot_mean_ns"), block_s=0.3, pause_s=0.0, boot_limit_s=5.0,
    )  # fmt: skip
    return replace(wish, **changes)


def tried(wish: Wish, said: list[str] | None = None) -> Outcome:
    return run(wish, {"PATH": "/usr/bin:/bin"}, (said if said is not None else []).append)
