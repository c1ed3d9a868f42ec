"""Every benchmark, one after the other, each with its conditions; `make bench`.

    .venv/bin/python -m bench [NAME …]

They want a quiet machine. The exit code is that of the worst; a figure outside its goal is printed all the same.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
OURS, ENGINE = (HERE.parent / venv / "bin/python" for venv in (".venv", ".venv-engine"))
MODEL = HERE.parent / ".models" / "tiny-dense"

COMMANDS: dict[str, list[str]] = {
    "help_speed": [str(OURS), str(HERE / "help_speed.py")],
    "why_speed": [str(OURS), str(HERE / "why_speed.py")],
    "probe_cost": [str(ENGINE), str(HERE / "probe_cost.py"), str(MODEL)],
    "expert_cost": [str(ENGINE), str(HERE / "expert_cost.py")],
    "recorder_day": [str(OURS), str(HERE / "recorder_day.py"), "--steps", "400000"],
    "engine_overhead": [str(OURS), "-m", "bench.engine_overhead"],
    "overhead_in_stream": [str(OURS), "-m", "bench.overhead_in_stream"],
    "capture_cost": [str(OURS), "-m", "bench.capture_cost"],
    "classify_speed": [str(OURS), str(HERE / "classify_speed.py")],
    "kineto_speed": [str(OURS), str(HERE / "trace/kineto_speed.py")],
    "nsys_speed": [str(OURS), str(HERE / "trace/nsys_speed.py")],
    "replay_lag": [str(OURS), "-m", "bench.loop.replay_lag"],
    "attribution": [str(OURS), "-m", "bench.attribution"],
    "twin_agreement": [str(OURS), "-m", "bench.twin.agreement"],
    "twin_speed": [str(OURS), "-m", "bench.twin.speed"],
    "twin_accuracy": [str(OURS), "-m", "bench.twin.accuracy"],
    "effect_power": [str(OURS), "-m", "bench.loop.effect_power"],
    "scheduler_speed": [str(OURS), "-m", "bench.loop.scheduler_speed"],
    "fidelity_power": [str(OURS), "-m", "bench.loop.fidelity_power"],
}


def main(names: list[str]) -> int:
    worst = 0
    for name in names or COMMANDS:
        print(f"\n== {name}", flush=True)
        worst = max(worst, abs(subprocess.run(COMMANDS[name], check=False, cwd=HERE.parent).returncode))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
