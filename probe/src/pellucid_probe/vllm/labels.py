"""The traffic class a client gave its request: `vllm_xargs: {"task": …}` in the body, or the header X-Pellucid-Task."""

from __future__ import annotations

from typing import Any, Optional

XARGS = ("task", "task_type")
HEADER = b"x-pellucid-task"
MAX_LENGTH = 64


def task_of(extra_args: Any) -> Optional[str]:
    if isinstance(extra_args, dict):
        for key in XARGS:
            value = extra_args.get(key)
            if isinstance(value, str) and value:
                return value[:MAX_LENGTH]
    return None
