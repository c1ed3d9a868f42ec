"""Whether an engine serves, and on which port it can.

    free_port()                                    40123
    healthy("http://127.0.0.1:40123/health")       True
    told("http://127.0.0.1:40123/version")         {"version": "0.32.0"}, or None
"""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

LOOK_LIMIT_S = 2.0


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=LOOK_LIMIT_S) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def told(url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any] | None:
    """A page's JSON object; None where there is none."""
    try:
        asked = urllib.request.Request(url, headers=dict(headers or {}))
        with urllib.request.urlopen(asked, timeout=LOOK_LIMIT_S) as reply:
            found = json.load(reply)
    except (urllib.error.URLError, OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
