"""The engine's words and the client's, in ours.

A client names its traffic class in the body (`vllm_xargs: {"task": …}`) or in the header X-Pellucid-Task.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Optional, Tuple

SENT = b"x-request-start"     # as nginx, Heroku and others send it: t=<UNIX time>, in s, ms, us or ns
_SCALES: Tuple[Tuple[float, int], ...] = ((1e17, 1), (1e14, 1_000), (1e11, 1_000_000), (1e8, 1_000_000_000))
XARGS = ("task", "task_type")
HEADER = b"x-pellucid-task"
MAX_LENGTH = 64
HEADER_TASK = "pellucid_task"      # the header's, where the engine core has to know it


def task_of(extra_args: Any) -> Optional[str]:
    if isinstance(extra_args, dict):
        for key in XARGS:
            value = extra_args.get(key)
            if isinstance(value, str) and value:
                return value[:MAX_LENGTH]
    return None


def sampling_of(params: Any) -> Tuple[float, float, int, bool]:
    """Temperature, top-p, top-k and whether the client gave a seed, as the engine samples by them."""
    return params.temperature, params.top_p, params.top_k, params.seed is not None


def sent_wall_ns(header: bytes) -> Optional[int]:
    """UNIX ns at which a client or gateway sent the request; None if the header is no time since 1973."""
    try:
        text = header.decode("ascii").strip()
        value = float(text[2:] if text.startswith("t=") else text)
    except ValueError:
        return None
    return next((int(value * scale) for least, scale in _SCALES if least <= value < least * 1e3), None)


def sent_ns(header: bytes, arrived_ns: int, wall: Callable[[], int] = time.time_ns) -> Optional[int]:
    """The same on CLOCK_MONOTONIC, for a request that arrives now. The wall clock is read now, not once at the start:
    it may have been set since, and then every request would seem to have been on its way for that long."""
    sent = sent_wall_ns(header)
    return None if sent is None else arrived_ns - (wall() - sent)


# RequestStatus → finish reason. IGNORED is a prompt longer than the model's limit.
_REASONS = {
    "FINISHED_STOPPED": "stop", "FINISHED_LENGTH_CAPPED": "length", "FINISHED_ABORTED": "abort",
    "FINISHED_IGNORED": "length", "FINISHED_ERROR": "error", "FINISHED_REPETITION": "repetition",
}  # fmt: skip


def reason_of(status: str) -> str:
    return _REASONS.get(status, status.lower())
