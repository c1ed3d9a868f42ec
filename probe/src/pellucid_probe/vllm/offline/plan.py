"""What would be hooked in this environment, touching nothing.

    python -m pellucid_probe.vllm.offline.plan
    {"engine": "vllm", "engine_version": "0.32.0", "facts": {"step.times": {"role": "engine_core", "state": …}}}

Checks names and signatures only; attributes of live objects are checked when the engine starts.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from typing import Any, Callable, Dict, Tuple

from pellucid_probe.guard import Target
from pellucid_probe.vllm import engine_core, frontend, live, worker
from pellucid_probe.vllm.config import engine_version
from pellucid_probe.vllm.kv import flow

ROLES: Dict[str, Dict[str, Tuple[Target, ...]]] = {
    "frontend": {**frontend.TARGETS, **live.FRONT_TARGETS},
    "engine_core": {**engine_core.TARGETS, "kv.lives": (flow.CLEAR,)},
    "worker": worker.TARGETS,
}
# Seen with others, and blind when one of them is; each comes after those.
WITH: Dict[str, Tuple[str, ...]] = {
    "step.limits": ("step.times",),
    **dict.fromkeys(engine_core.WITH_STEPS, ("step.times",)),
    "step.waiting_reason": ("step.times", "step.limits"),
    "kv.blocks": ("step.times", "core.config"),
    **dict.fromkeys(live.CORE_FACTS, ("step.times", "core.config")),
    "worker.padded_tokens": ("worker.graph_mode",),
    "kv.lives": ("kv.flow", "kv.blocks", "request.freed", "request.queued"),
}
COLLECT = "use an engine version of the tested table, or report this one"

Fault = Callable[[str, Tuple[Target, ...]], str]


def plan() -> Dict[str, Any]:
    return {"engine": "vllm", "engine_version": engine_version(), "facts": facts(imported)}


def imported(fact: str, targets: Tuple[Target, ...]) -> str:
    """Why a fact cannot be seen as far as its targets and the configuration tell, or ""."""
    return next((fault for fault in (target.fault() for target in targets) if fault), "") or _no_field(fact)


def _no_field(fact: str) -> str:
    field = live.FIELDS.get(fact)
    if field is None:
        return ""
    try:
        config = importlib.import_module(live.CONFIG).SchedulerConfig
    except (ImportError, AttributeError) as error:
        return f"{live.CONFIG}: {error}"
    there = field in getattr(config, "__annotations__", {}) or hasattr(config, field)
    return "" if there else f"{live.CONFIG}.SchedulerConfig has no {field}"


def facts(fault: Fault) -> Dict[str, Any]:
    """Every fact the probe has hooks for; `fault` says of one and its own targets why it cannot be seen, or ""."""
    found: Dict[str, Any] = {}
    for role, wanted in ROLES.items():
        for fact, targets in wanted.items():
            found[fact] = _fact(role, fault(fact, targets), [f"{t.module}.{t.name}" for t in targets])
    for fact, others in WITH.items():
        own = found.get(fact) or _fact(found[others[0]]["role"], fault(fact, ()), [])
        reasons = [own["reason"], *(found[other]["reason"] for other in others)]
        found[fact] = _fact(own["role"], next(filter(None, reasons), ""), own["hooks"])
    found["worker.device_time"] = {
        "role": "worker", "state": "blind", "reason": worker.NO_DEVICE_CLOCK,
        "collect": "on a CPU there is none; on a GPU capture a profile", "hooks": [],
    }  # fmt: skip
    return found


def _fact(role: str, reason: str, hooks: "list[str]") -> Dict[str, Any]:
    return {"role": role, "state": "blind" if reason else "visible", "reason": reason,
            "collect": COLLECT if reason else "", "hooks": hooks}  # fmt: skip


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):   # the engine prints while it is imported
        found = plan()
    print(json.dumps(found))
