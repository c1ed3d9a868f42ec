"""Every setting once: name, environment variable, default, unit, help. Its page: docs/reference/settings.md."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pellucid.core.errors import AskedWrongly


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    env: str
    default: str
    unit: str
    help: str


SETTINGS = (
    Setting("home", "PELLUCID_HOME", "~/.pellucid", "path", "where recordings and the site's secret key live"),
    Setting("shm", "PELLUCID_SHM", "/dev/shm", "path", "the tmpfs on which `run` makes the probe's folder"),
    Setting("seal_rows", "PELLUCID_SEAL_ROWS", "200000", "rows", "rows after which a table's open tail becomes a segment"),  # noqa: E501
    Setting("seal_s", "PELLUCID_SEAL_S", "600", "s", "seconds after which it does so anyway"),
    Setting("flush_s", "PELLUCID_FLUSH_S", "0.5", "s", "how often rows reach the disk; what a kill -9 may lose"),
    Setting("poll_s", "PELLUCID_POLL_S", "0.05", "s", "how often the recorder reads the rings"),
    Setting("retain_bytes", "PELLUCID_RETAIN_BYTES", "21474836480", "bytes", "size of one run above which its oldest raw segments go"),  # noqa: E501
    Setting("retain_s", "PELLUCID_RETAIN_S", "604800", "s", "age above which raw segments of steps go"),
    Setting("authorization", "PELLUCID_AUTHORIZATION", "", "text", "Authorization header for metrics pages and Prometheus: `Bearer …` or `Basic …`"),  # noqa: E501
)  # fmt: skip

_BY_NAME = {s.name: s for s in SETTINGS}


def setting(name: str, environ: Mapping[str, str] = os.environ) -> str:
    s = _BY_NAME[name]
    return environ.get(s.env) or s.default


def number(name: str, environ: Mapping[str, str] = os.environ) -> float:
    """A numeric setting; refuses what is not a positive number instead of falling back to the default."""
    s, text = _BY_NAME[name], setting(name, environ)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not math.isfinite(value) or value <= 0:
        raise AskedWrongly(f"{s.env}={text!r} is not a positive number of {s.unit} (default {s.default})")
    return value


def home(environ: Mapping[str, str] = os.environ) -> Path:
    return Path(setting("home", environ)).expanduser()
