"""A process that writes rows: its ring and its description, as the probe left them in the folder.

    engine_core-4711.ring   engine_core-4711.json   →   Source("engine_core-4711")
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid_probe.ring import Record, RingError, RingReader

from pellucid.collect.facts import blind, fact_row
from pellucid.store.schema import SOURCES
from pellucid.store.write import Row

SIZES = ("kv_cache_bytes", "model_weight_bytes", "draft_weight_bytes", "worker_kv_bytes", "draft_kv_bytes")
ROLES = ("frontend", "worker", "engine_core")   # the order in which rings are read; see loop.py


def read_key(folder: Path) -> bytes | None:
    """The site's secret, as the recorder laid it down or a probe made it."""
    try:
        return (folder / "key").read_bytes() or None
    except OSError:
        return None


@dataclass(slots=True)
class Source:
    name: str
    folder: Path
    ring: RingReader | None = None
    fault: str = ""                                  # why the ring cannot be read
    described: dict[str, Any] = field(default_factory=dict)
    _described_text: str = ""

    @property
    def role(self) -> str:
        return self.name.rsplit("-", 1)[0]

    @property
    def pid(self) -> int | None:
        pid = self.described.get("pid")
        return pid if isinstance(pid, int) else None

    def poll(self) -> list[Record]:
        if self.ring is None:
            self._open()     # again after a fault: it may have been found half made
        return self.ring.poll() if self.ring is not None else []

    def refresh(self) -> bool:
        """Reads the description again; returns whether it changed."""
        try:
            text = (self.folder / f"{self.name}.json").read_text()
            described = json.loads(text)
        except (OSError, ValueError):
            return False
        if text == self._described_text or not isinstance(described, dict):
            return False
        self.described, self._described_text = described, text
        return True

    def provenance(self) -> dict[str, Any]:
        d = self.described
        return {"deployment": d.get("deployment", "default"), "engine": d.get("engine") or None,
                "process": self.name, "dp_rank": d.get("dp_rank")}  # fmt: skip

    def row(self) -> Row:
        d = self.described
        anchor = self.ring.anchor if self.ring is not None else (None, None)
        known = {
            **self.provenance(), "role": d.get("role", self.role), "engine_version": d.get("engine_version") or None,
            "python_version": d.get("python_version"), "probe_version": d.get("probe_version"),
            "model": d.get("config", {}).get("model"), "config_json": json.dumps(d.get("config", {})),
            **{name: d.get("config", {}).get(name) for name in SIZES},
            "context_blocks_count": d.get("config", {}).get("kv_context_blocks"),
            "pid": self.pid, "start_ns": d.get("start_ns"),
            "anchor_mono_ns": anchor[0], "anchor_wall_ns": anchor[1],
            "lost_count": self.ring.lost_count if self.ring else None,
            "torn_count": self.ring.torn_count if self.ring else None,
        }  # fmt: skip
        return tuple(known.get(name) for name in SOURCES.names())

    def fact_rows(self) -> list[Row]:
        d = self.described
        who = {"process": self.name, "role": d.get("role", self.role), "engine_version": d.get("engine_version")}
        if d.get("state") == "off":
            return [fact_row(who, "probe", blind(d.get("reason", ""), "give it a PELLUCID_DIR on tmpfs"))]
        return [fact_row(who, fact, seen) for fact, seen in d.get("facts", {}).items()]

    def _open(self) -> None:
        try:
            self.ring = RingReader(str(self.folder / f"{self.name}.ring"))
            self.fault = ""
        except FileNotFoundError:
            pass
        except (RingError, OSError, ValueError) as error:
            self.fault = str(error)


def discover(folder: Path, known: dict[str, Source]) -> None:
    """Adds processes that appeared. A description alone counts too: it may say why the probe stays off."""
    with os.scandir(folder) as entries:
        names = {e.name.rsplit(".", 1)[0] for e in entries if e.name.endswith((".ring", ".json"))}
    for name in sorted(names - known.keys()):
        if name.rsplit("-", 1)[0] in ROLES:
            known[name] = Source(name, folder)
