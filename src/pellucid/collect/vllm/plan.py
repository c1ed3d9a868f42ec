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
import subprocess
from collections.abc import Mapping
from typing import Any

from pellucid.core.errors import CannotAnswer, Failed

MODULE = "pellucid_probe.vllm.offline.plan"
LIMIT_S = 120.0  # importing the engine on a cold disk takes most of a minute
START_LIMIT_S = 20.0   # a Python alone starts in a fraction of a second
IS_PYTHON = "a Python"


def plan(python: str, environ: Mapping[str, str] = os.environ, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """The offline check's JSON. Raises CannotAnswer when that is no Python, or one without probe or engine, Failed when
    the check broke."""
    said = _run([python, "-c", f"print({IS_PYTHON!r})"], environ, min(limit_s, START_LIMIT_S))
    if said.stdout.strip() != IS_PYTHON:
        raise CannotAnswer(f"{python} is no Python. Try: --engine-python PATH, the Python that the engine runs in")
    done = _run([python, "-m", MODULE], environ, limit_s)
    if done.returncode:
        raise _fault(python, done.stderr)
    return _parse(done.stdout, python)


def _run(command: list[str], environ: Mapping[str, str], limit_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, env={**environ, "PELLUCID_OFF": "1"}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=limit_s, check=False,
        )  # fmt: skip
    except (OSError, ValueError) as error:   # ValueError: a name with a null byte in it
        reason = error.strerror if isinstance(error, OSError) else error
        raise CannotAnswer(f"cannot run {command[0]}: {reason}. Try: --engine-python PATH") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(command[:3])} gave no answer in {limit_s:.0f} s") from error


def _fault(python: str, stderr: str) -> CannotAnswer | Failed:
    last = (stderr.strip().splitlines() or ["no message"])[-1]
    if "pellucid_probe" in last and "No module named" in last:
        return CannotAnswer(f"{python} has no probe ({last}). Try: {python} -m pip install pellucid-probe")
    if "No module named" in last:
        return CannotAnswer(f"{python} has no engine the probe knows ({last}). Try: --engine-python PATH")
    return Failed(f"{python} -m {MODULE} ended with an error: {last}")


def _parse(stdout: str, python: str) -> dict[str, Any]:
    """The last line that is a JSON object: engines print notes of their own while they are imported."""
    for line in reversed(stdout.strip().splitlines()):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                break
            if isinstance(found, dict) and not found.get("engine_version"):
                raise CannotAnswer(f"{python} has no vLLM. Try: --engine-python PATH")
            if isinstance(found, dict) and isinstance(found.get("facts"), dict):
                return found
    raise Failed(f"{python} -m {MODULE} printed no JSON object with facts; saw {stdout[-120:]!r}")
