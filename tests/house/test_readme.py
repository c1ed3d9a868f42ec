"""The README shows what the program says: the answers for the packaged recordings, word for word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pellucid.core.run import EXAMPLES

SHOWN = ("example", "example-kernels")
ROOT = Path(__file__).parents[2]


def shown(run: str) -> str:
    blocks = (ROOT / "README.md").read_text().split("```")
    (block,) = (b for b in blocks if b.strip().startswith(f"$ pellucid why --run {run} "))
    return block.strip().split("\n", 1)[1]


def test_every_packaged_recording_is_named() -> None:
    assert all(f"--run {name}" in (ROOT / "README.md").read_text() for name in EXAMPLES)


@pytest.mark.parametrize("run", SHOWN)
def test_the_readmes_answers_are_the_ones_given(tmp_path: Path, run: str) -> None:
    environment = {**os.environ, "PELLUCID_HOME": str(tmp_path), "COLUMNS": "100"}
    command = [str(Path(sys.executable).with_name("pellucid")), "why", "--run", run]
    given = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert shown(run).strip() == given.strip()
