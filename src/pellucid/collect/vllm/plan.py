"""What the probe would hook in an engine that is installed but not running: asked of the engine's own Python.

    plan(Path(".venv-engine/bin/python"), environ)
    → {"engine": "vllm", "engine_version": "0.32.0",
       "facts": {"step.times": {"role": "engine_core", "state": "visible", "reason": "", "collect": ""}, …},
       "hooks": {…}}

The child only imports and looks: no hook is set, no ring made, no device touched. It is told PELLUCID_OFF=1 so
that the probe stays inert in it even where PELLUCID_DIR is set.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any

from pellucid.collect.engine_python import run_python
from pellucid.core.errors import CannotAnswer, Failed

MODULE = "pellucid_probe.vllm.offline.plan"
KNOBS = "pellucid_probe.vllm.offline.knobs"
LIMIT_S = 120.0  # importing the engine on a cold disk takes most of a minute
START_LIMIT_S = 20.0   # a Python alone starts in a fraction of a second
IS_PYTHON = "a Python"
ERROR = re.compile(r"[\w.]+(Error|Exception|Interrupt|Exit)\b|.*No module named")


def plan(python: str, environ: Mapping[str, str] = os.environ, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """The offline check's JSON. Raises CannotAnswer when that is no Python, or one without probe or engine, Failed when
    the check broke."""
    return _asked(python, MODULE, "facts", environ, limit_s)


def parser(python: str, environ: Mapping[str, str] = os.environ, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """What the engine's own argument parser knows: flags with their types, defaults and choices, and variables. Raises
    as `plan` does."""
    return _asked(python, KNOBS, "flags", environ, limit_s)


def _asked(python: str, module: str, key: str, environ: Mapping[str, str], limit_s: float) -> dict[str, Any]:
    need_python(python, environ, limit_s)
    done = _run([python, "-m", module], environ, limit_s)
    if done.returncode:
        raise fault(python, module, done.stderr)
    return _parse(done.stdout, python, module, key)


def need_python(python: str, environ: Mapping[str, str], limit_s: float) -> None:
    """Raises CannotAnswer where that is none."""
    said = _run([python, "-c", f"print({IS_PYTHON!r})"], environ, min(limit_s, START_LIMIT_S))
    if said.stdout.strip() != IS_PYTHON:
        raise CannotAnswer(f"{python} is no Python. Try: --engine-python PATH, the Python that the engine runs in")


def _run(command: list[str], environ: Mapping[str, str], limit_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return run_python(command, environ, limit_s)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(command[:3])} gave no answer in {limit_s:.0f} s") from error


def fault(python: str, module: str, stderr: str) -> CannotAnswer | Failed:
    """What a child that ended with an error died of, by its last words."""
    lines = stderr.strip().splitlines() or ["no message"]
    # Engines' libraries print notes behind the error when they are unloaded.
    last = next((line for line in reversed(lines) if ERROR.match(line)), lines[-1])
    if "pellucid_probe" in last and "No module named" in last:
        return CannotAnswer(f"{python} has no probe ({last}). Try: {python} -m pip install pellucid-probe")
    if "No module named" in last:
        return CannotAnswer(f"{python} has no engine the probe knows ({last}). Try: --engine-python PATH")
    return Failed(f"{python} -m {module} ended with an error: {last}")


def _parse(stdout: str, python: str, module: str, key: str) -> dict[str, Any]:
    """The last line that is a JSON object: engines print notes of their own while they are imported."""
    for line in reversed(stdout.strip().splitlines()):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                break
            if isinstance(found, dict) and not found.get("engine_version"):
                raise CannotAnswer(f"{python} has no vLLM. Try: --engine-python PATH")
            if isinstance(found, dict) and isinstance(found.get(key), dict):
                return found
    raise Failed(f"{python} -m {module} printed no JSON object with {key}; saw {stdout[-120:]!r}")
