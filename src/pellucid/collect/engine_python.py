"""The engine's own Python, run once for what it prints: a child in which the probe stays inert.

    done = run_python(["/opt/engine/bin/python", "-m", "…"], environ, limit_s=120)
    done.returncode, done.stdout, done.stderr
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from pellucid.core.errors import CannotAnswer


def run_python(command: Sequence[str], environ: Mapping[str, str], limit_s: float) -> subprocess.CompletedProcess[str]:
    """Raises CannotAnswer where it cannot be run, subprocess.TimeoutExpired."""
    try:
        return subprocess.run(
            command, env={**environ, "PELLUCID_OFF": "1"}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=limit_s, check=False,
        )  # fmt: skip
    except (OSError, ValueError) as error:   # ValueError: a name with a null byte in it
        reason = error.strerror if isinstance(error, OSError) else error
        raise CannotAnswer(f"cannot run {command[0]}: {reason}. Try: --engine-python PATH") from error
