"""What can be seen on this machine and in this engine, what not and why, and what seeing costs.

    doctor(Asked(home, shm, None, None, None)) → {
        "here":    [{"check": "tmpfs", "state": "ok", "says": "/dev/shm: 23.5 GiB free", "do": ""}, …],
        "engine":  {"from": "run 20261130-091500-a1b2", "processes": [{"process": "worker-12", "state": "on", …}]},
        "visible": [{"id": "step.times", "role": "engine_core"}, …],
        "blind":   [{"id": "device.time", "role": "worker", "reason": "…", "collect": "…"}, …],
        "cost":    {"processes": [{"process": "…", "probe_ratio": 0.002}], "steps": {…}, "disk": {…}}}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.units import S_NS
from pellucid.store.read import RunReader, open_run
from pellucid.verbs.launch.engines import plan
from pellucid.verbs.launch.run import probe_sources
from pellucid.verbs.runs import run_folder, summary
from pellucid.verbs.visible.facts import latest_facts
from pellucid.verbs.visible.here import checks

DAY_NS = 86_400 * S_NS


@dataclass(frozen=True, slots=True)
class Asked:
    home: Path
    shm: Path
    folder: Path | None          # a probe folder in use
    run: str | None              # None: the newest
    plan_python: str | None      # ask this Python what would be hooked


def doctor(asked: Asked) -> dict[str, Any]:
    here = checks(asked.home, asked.shm)
    if asked.plan_python is not None:
        planned = plan(asked.plan_python)
        label = f"plan: {planned.get('engine')} {planned.get('engine_version')} in {asked.plan_python}"
        facts = [{"process": "", "fact": name, **fact} for name, fact in planned["facts"].items()]
        return {"here": here, **_seen(label, [], facts), "hooks": planned.get("hooks", {}), "cost": None}
    run = _run(asked)
    cost = _cost(run) if run is not None else None
    if asked.folder is not None:
        return {"here": here, **_from_folder(asked.folder), "cost": cost}
    if run is None:
        nothing = {"id": "engine", "role": "", "reason": "no recording and no probe folder to look at",
                   "collect": "pellucid run -- <engine command>; or doctor --plan for an engine at rest"}  # fmt: skip
        return {"here": here, "engine": None, "visible": [], "blind": [nothing], "cost": None}
    return {"here": here, **_from_run(run), "cost": cost}


def _run(asked: Asked) -> RunReader | None:
    """The run asked for, or the newest; none is no error unless one was named."""
    try:
        return open_run(run_folder(asked.home, asked.run))
    except CannotAnswer:
        if asked.run is not None:
            raise
        return None


def _from_folder(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise AskedWrongly(f"no folder at {folder}. It is the engine's PELLUCID_DIR")
    sources = probe_sources(folder)
    processes = [
        {"process": name, **{k: s.get(k) for k in ("role", "engine", "engine_version", "state", "reason")}}
        for name, s in sources.items()
    ]
    facts = [
        {"process": name, "role": s.get("role"), "fact": fact, **state}
        for name, s in sources.items() for fact, state in (s.get("facts") or {}).items()
    ]  # fmt: skip
    return _seen(f"probe folder {folder}", processes, facts)


def _from_run(run: RunReader) -> dict[str, Any]:
    processes = run.rows(
        "SELECT DISTINCT process, role, engine, engine_version, 'on' AS state, '' AS reason "
        "FROM sources ORDER BY process"
    )
    return _seen(f"run {run.folder.name}", processes, latest_facts(run))


def _seen(label: str, processes: list[dict[str, Any]], facts: list[dict[str, Any]]) -> dict[str, Any]:
    """A fact that one process sees is visible, whoever else does not."""
    by_fact: dict[str, list[dict[str, Any]]] = {}
    for fact in facts:
        by_fact.setdefault(str(fact["fact"]), []).append(fact)
    visible, blind = [], []
    for name, states in sorted(by_fact.items()):
        seen = [s for s in states if s.get("state") == "visible"]
        if seen:
            visible.append({"id": name, "role": seen[0].get("role")})
        else:
            s = states[0]
            blind.append({"id": name, **{k: s.get(k) or "" for k in ("role", "reason", "collect")}})
    for process in processes:
        if process["state"] == "off":
            blind.append({"id": f"all of {process['process']}", "role": process["role"], "reason": process["reason"],
                          "collect": "give the tmpfs more room, or see the reason"})  # fmt: skip
    return {"engine": {"from": label, "processes": processes}, "visible": visible, "blind": blind}


def _cost(run: RunReader) -> dict[str, Any]:
    """What our own hooks took, as they measured it, and what the rows take on disk."""
    processes = run.rows("""
        SELECT process, sum(probe_ns)::BIGINT AS probe_ns, sum(interval_ns)::BIGINT AS interval_ns,
               sum(probe_ns) / nullif(sum(interval_ns), 0) AS probe_ratio,
               max(probe_errors_count) AS probe_errors_count, max(ring_dropped_count) AS ring_dropped_count
        FROM host WHERE probe_ns IS NOT NULL GROUP BY process ORDER BY process""")
    steps = run.one("""
        SELECT count(probe_ns) AS steps_count, avg(probe_ns) AS probe_mean_ns,
               quantile_cont(probe_ns, 0.99) AS probe_p99_ns, avg(running_count) AS running_mean_count
        FROM steps""")
    row = summary(run.folder)
    per_day = row["size_bytes"] * DAY_NS / row["duration_ns"] if row["duration_ns"] else None
    disk = {"run_id": row["run_id"], "size_bytes": row["size_bytes"], "duration_ns": row["duration_ns"],
            "per_day_bytes": per_day, "basis": "extrapolated from this recording's load"}  # fmt: skip
    return {"processes": processes, "steps": steps if steps["steps_count"] else None, "disk": disk}
