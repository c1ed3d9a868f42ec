"""The files these tests look at: what git tracks and what is new and not ignored."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PELLUCID, PROBE = ROOT / "src/pellucid", ROOT / "probe/src/pellucid_probe"


@cache
def files() -> tuple[Path, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return tuple(p for name in sorted(set(listed)) if (p := ROOT / name).is_file())


def inside(folder: Path, suffix: str = "") -> list[Path]:
    return [p for p in files() if p.is_relative_to(folder) and p.name.endswith(suffix)]


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))
