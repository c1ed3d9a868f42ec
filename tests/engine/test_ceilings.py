"""The measuring program under an engine's Python, on the processor: what is told of a device is told of it, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pellucid.collect.gpu.ceilings import measure
from pellucid.core.errors import CannotAnswer
from pellucid.verbs.captures.ceilings import ceilings_here, measure_here
from tools.real_engine import PYTHON

SMALL = ("--device", "cpu", "--copy-gib", "0.03", "--side", "256", "--batch-s", "0.005", "--batches", "3")


def test_rates_are_measured_kept_and_read_back(tmp_path: Path) -> None:
    kept = measure_here(tmp_path, str(PYTHON), SMALL, lambda: 1_795_996_800_000_000_000)
    assert {"copy_bytes_per_s", "read_bytes_per_s", "bf16_flop_per_s"} <= kept["rates"].keys()
    assert not kept["rates"].keys() & kept["missing"].keys()
    (own,) = ceilings_here(tmp_path)
    assert own.device == "cpu" and own.source.startswith("measured here on 2026-11-30: torch ")
    assert own.bytes_per_s == max(kept["rates"]["copy_bytes_per_s"], kept["rates"]["read_bytes_per_s"]) > 1e8
    assert dict(own.flop)["bf16"] == kept["rates"]["bf16_flop_per_s"] > 1e8


def test_the_same_data_are_copied_in_more_time_when_there_are_more() -> None:
    """A rate is of what was moved: half the buffers, half the calls' time, and the same rate within a factor."""
    small, large = (measure(str(PYTHON), os.environ, ("--device", "cpu", "--copy-gib", gib, *SMALL[4:])).rates
                    for gib in ("0.1", "0.3"))  # fmt: skip
    assert 1 / 4 < small["copy_bytes_per_s"] / large["copy_bytes_per_s"] < 4


def test_without_a_device_it_is_refused() -> None:
    with pytest.raises(CannotAnswer, match=r"sees no device.*Try: --engine-python PATH"):
        measure(str(PYTHON), os.environ)
