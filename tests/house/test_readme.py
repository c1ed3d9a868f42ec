"""The README shows what the program says: the example's answer, word for word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = "$ pellucid why --run example"


def shown() -> str:
    blocks = (ROOT / "README.md").read_text().split("```")
    (block,) = (b for b in blocks if b.strip().startswith(COMMAND))
    return block.strip().split("\n", 1)[1]


def test_the_readmes_first_answer_is_the_one_given(tmp_path: Path) -> None:
    environment = {**os.environ, "PELLUCID_HOME": str(tmp_path), "COLUMNS": "100"}
    command = [str(Path(sys.executable).with_name("pellucid")), "why", "--run", "example"]
    given = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert shown().strip() == given.strip()
