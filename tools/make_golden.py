"""Real recordings for tests: one that has the bottleneck and one near miss for every rule, and a healthy one.

    .venv/bin/python -m tools.make_golden [SCENARIO …]             → tests/golden/<scenario>/
    .venv/bin/python -m tools.make_golden --keep SCENARIO RUN      a recording of that scenario that is there already

Takes about two minutes each. A recording whose findings are not the scenario's, or that does not add up, is not kept.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from pellucid.store.read import open_run
from pellucid.testing.accounting import broken
from tools.real_engine import ROOT
from tools.recording import findings, record
from tools.scenarios import SCENARIOS

GOLDEN = ROOT / "tests" / "golden"
SEED = 2026
MOST_BYTES = 1_000_000


def make(name: str, home: Path) -> str:
    """Records a scenario and keeps it; returns what was wrong with it, "" for nothing."""
    served, _ = record(SCENARIOS[name], SEED, home, home / "engine.log", lambda line: print(line, flush=True))
    return keep(name, served.folder())


def keep(name: str, source: Path) -> str:
    """Copies a recording of the scenario; returns what was wrong with it, "" for nothing."""
    scenario = SCENARIOS[name]
    found = findings(source, source.parent.parent)
    if found != ({scenario.finds} - {None}):
        return f"{name}: expected {scenario.finds}, found {sorted(found)}; the recording is in {source}"
    lawless = broken(open_run(source))
    if lawless:
        return f"{name}: {'; '.join(lawless)}: does not hold; the recording is in {source}"
    kept = [*source.glob("*.parquet"), source / "run.json", source / "checksums.txt"]
    size_bytes = sum(p.stat().st_size for p in kept)
    if size_bytes > MOST_BYTES:
        return f"{name}: {size_bytes} bytes are more than {MOST_BYTES}; the recording is in {source}"
    target = GOLDEN / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in kept:
        shutil.copyfile(path, target / path.name)
    print(f"{name}: {size_bytes} bytes in {target}", flush=True)
    return ""


def main(names: list[str]) -> int:
    if names[:1] == ["--keep"]:
        _, name, source = names
        fault = keep(name, Path(source))
        print(fault, file=sys.stderr)
        return 1 if fault else 0
    home = Path(tempfile.mkdtemp(prefix="pellucid-golden-"))
    wrong = [fault for fault in (make(name, home) for name in names or SCENARIOS) if fault]
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
