"""What the devices of this site were measured to do: `pellucid doctor --ceilings`, and the file that keeps it.

    measure_here(home, "/opt/engine/bin/python") → {"device": "NVIDIA H200", "rates": {"copy_bytes_per_s": …}, …}
    ceilings_here(home)                          → (Measured("NVIDIA H200", (("bf16", 798e12), …), 4.25e12, "…"),)

`ceilings.json` beside the runs has the newest measurement of each device's name. Traces that are loaded or captured
from then on are judged by it, before the catalogue, and each capture keeps what it was judged by.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pellucid.collect.gpu.ceilings import Found, measure
from pellucid.core.errors import AskedWrongly, Failed
from pellucid.core.whole import replacing
from pellucid.physics.ceilings import Measured
from pellucid.physics.formats import PRECISIONS

FILE = "ceilings.json"
MOVED = ("copy_bytes_per_s", "read_bytes_per_s")        # a kernel may read more than it writes: the better of both


def measure_here(
    home: Path, python: str, options: Sequence[str] = (), wall_ns: Callable[[], int] = time.time_ns
) -> dict[str, Any]:
    """Raises CannotAnswer where there is no device, or one that is in use, Failed where it could not be measured."""
    others = _read(home)
    found = measure(python, os.environ, options)
    if not any(name in found.rates for name in MOVED):
        raise Failed(f"{found.device}: its memory could not be measured ({'; '.join(found.missing.values())}). Nothing "
                     f"was kept")  # fmt: skip
    kept = {**asdict(found), "measured_ns": wall_ns()}
    home.mkdir(parents=True, exist_ok=True)
    with replacing(home / FILE) as part:
        part.write_text(json.dumps({**others, found.device: kept}, indent=1))
    return kept


def ceilings_here(home: Path) -> tuple[Measured, ...]:
    return tuple(_measured(home, name, kept) for name, kept in _read(home).items())


def _read(home: Path) -> dict[str, Any]:
    """Nothing where nothing was measured. Raises AskedWrongly where the file is damaged."""
    try:
        found = json.loads((home / FILE).read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _damaged(home, str(error)) from error
    if not isinstance(found, dict):
        raise _damaged(home, "it holds no object")
    return found


def _measured(home: Path, name: str, kept: Any) -> Measured:
    try:
        found = Found(**{k: v for k, v in kept.items() if k != "measured_ns"})
        bytes_per_s = max(_rate(found.rates[n]) for n in MOVED if n in found.rates)
        flop = tuple((p, _rate(found.rates[f"{p}_flop_per_s"])) for p in PRECISIONS if f"{p}_flop_per_s" in found.rates)
        day = time.strftime("%Y-%m-%d", time.gmtime(kept["measured_ns"] / 1e9))
        used = found.conditions
        how = (f"torch {used['torch']}, {used['side']}³ products, buffers of {used['copy_gib']} GiB, "
               f"best of {used['batches_count']}")  # fmt: skip
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(home, f"{name}: {error!r}") from error
    return Measured(name, flop, bytes_per_s, f"measured here on {day}: {how}")


def _rate(value: Any) -> float:
    """Raises ValueError for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
        raise ValueError(f"{value!r} is no rate")
    return float(value)


def _damaged(home: Path, why: str) -> AskedWrongly:
    return AskedWrongly(f"{home / FILE} cannot be read: {why}. Try: pellucid doctor --ceilings, after removing it")
