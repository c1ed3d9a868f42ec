"""The profiler of the engine's framework, torch.profiler: operators of the host, and kernels where there is a device.

torch is imported when somebody asks for a capture; a worker has it loaded long before.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Tuple

from pellucid_probe.capture import Ask


def seen() -> Tuple[str, str, str]:
    """Whether captures can be taken here: state, reason, what to do."""
    if os.environ.get("PELLUCID_CAPTURE") == "0":
        return "blind", "PELLUCID_CAPTURE=0 is set for the engine", "start it without"
    return "visible", "", ""


def make(ask: Ask) -> Any:
    """Raises RuntimeError when a profiler is running: two of them break each other."""
    torch = importlib.import_module("torch")
    running = getattr(torch.autograd, "_profiler_enabled", None)
    if running is not None and running():
        raise RuntimeError("another profiler of the framework is running")
    activity = torch.profiler.ProfilerActivity
    activities = [activity.CPU] + ([activity.CUDA] if torch.cuda.is_available() else [])
    return torch.profiler.profile(activities=activities, record_shapes=ask.shapes, with_stack=False)


def label(text: str) -> Any:
    """A range of the trace."""
    return importlib.import_module("torch").profiler.record_function(text)
