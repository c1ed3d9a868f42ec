"""Entries of an audit log → a table. Times are local.

    3  14:02:11  guarded        refused, memory: beside: it needs 14.0 GiB …
    4  14:02:11  trialstarted   trial 1: started, beside
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in ("entry", "time", "kind", "says"):
        shown.add_column(name, justify="right" if name == "entry" else "left", no_wrap=name != "says", overflow="fold")
    for row in rows:
        at = time.strftime("%H:%M:%S", time.localtime(row["wall_ns"] / 1e9))
        says = "".join(c if c.isprintable() else "\ufffd" for c in row["says"])
        shown.add_row(str(row["seq"]), at, row["kind"], says)
    return shown
