"""Real metrics pages, read in place."""

from __future__ import annotations

import gzip
from pathlib import Path

from pellucid.collect.openmetrics.parse import Page, parse
from tests.conftest import shared_data


def files(*folders: str) -> list[Path]:
    """Every page of other people's engines, and of our H200."""
    roots = [shared_data(f"prometheus/{f}") for f in folders or ("",)]
    roots += [] if folders else [shared_data("h200_vllm024")]
    found = [p for root in roots for name in ("*.prom", "*.prom.gz", "metrics_*.txt.gz") for p in root.rglob(name)]
    assert found
    return sorted(found)


def text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


def page(name: str) -> Page:
    return parse(text(shared_data(f"prometheus/{name}")))


def pairs() -> list[Path]:
    """Pages before and after a load, each pair in one file of JSON."""
    found = sorted(shared_data("prometheus/dsv4_b1_gb300").glob("*.json.gz"))
    assert found
    return found
