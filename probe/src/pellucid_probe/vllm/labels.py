"""The engine's words and the client's, in ours.

A client names its traffic class in the body (`vllm_xargs: {"task": …}`) or in the header X-Pellucid-Task.
"""

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


# RequestStatus → finish reason. IGNORED is a prompt longer than the model's limit.
_REASONS = {
    "FINISHED_STOPPED": "stop", "FINISHED_LENGTH_CAPPED": "length", "FINISHED_ABORTED": "abort",
    "FINISHED_IGNORED": "length", "FINISHED_ERROR": "error", "FINISHED_REPETITION": "repetition",
}  # fmt: skip


def reason_of(status: str) -> str:
    return _REASONS.get(status, status.lower())
