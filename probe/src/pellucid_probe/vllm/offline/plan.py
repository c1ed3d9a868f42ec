"""What would be hooked in this environment, touching nothing.

    python -m pellucid_probe.vllm.offline.plan
    {"engine": "vllm", "engine_version": "0.32.0", "facts": {"step.times": {"role": "engine_core", "state": …}}}

Checks names and signatures only; attributes of live objects are checked when the engine starts.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any, Dict

from pellucid_probe.vllm import engine_core, frontend, worker
from pellucid_probe.vllm.versions import engine_version

ROLES = {"frontend": frontend.TARGETS, "engine_core": engine_core.TARGETS, "worker": worker.TARGETS}


def plan() -> Dict[str, Any]:
    facts: Dict[str, Any] = {}
    for role, targets in ROLES.items():
        for fact, wanted in targets.items():
            faults = [fault for fault in (target.fault() for target in wanted) if fault]
            facts[fact] = {
                "role": role, "state": "blind" if faults else "visible", "reason": faults[0] if faults else "",
                "collect": "use an engine version of the tested table, or report this one" if faults else "",
                "hooks": [f"{t.module}.{t.name}" for t in wanted],
            }  # fmt: skip
    for fact in engine_core.WITH_STEPS:
        facts[fact] = {**facts["step.times"], "hooks": []}
    facts["worker.device_time"] = {
        "role": "worker", "state": "blind", "reason": worker.NO_DEVICE_CLOCK,
        "collect": "on a CPU there is none; on a GPU capture a profile", "hooks": [],
    }  # fmt: skip
    return {"engine": "vllm", "engine_version": engine_version(), "facts": facts}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):   # the engine prints while it is imported
        found = plan()
    print(json.dumps(found))
