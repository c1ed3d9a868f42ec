"""The list of recordings → a table. Times are local."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from pellucid.core.units import counted
from pellucid.surface.cli.render.page import MISSING, value

_STYLES = {"recording": "green", "damaged": "red", "interrupted": "yellow", "empty": "dim"}


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name, right in (("run", False), ("recorded", False), ("engine", False), ("model", False), ("duration", True),
                        ("requests", True), ("steps", True), ("size", True), ("state", False)):  # fmt: skip
        shown.add_column(name, justify="right" if right else "left", no_wrap=name != "model")
    for row in rows:
        engine = f"{row['engine']} {row['engine_version'] or ''}".strip() if row["engine"] else MISSING
        model = str(row["model"]).rstrip("/").rsplit("/", 1)[-1] if row["model"] else MISSING
        shown.add_row(
            row["run_id"], time.strftime("%d %b %H:%M", time.localtime(row["recorded_ns"] / 1e9)), engine, model,
            *(value(c, row[c]) for c in ("duration_ns", "requests_count", "steps_count", "size_bytes")),
            _state(row), style=_STYLES.get(row["state"]),
        )  # fmt: skip
    return shown


def _state(row: Mapping[str, Any]) -> str:
    gone = row["expired_steps_count"]
    return f"{row['state']}, {counted(gone, 'steps')} by the minute only" if gone else str(row["state"])
