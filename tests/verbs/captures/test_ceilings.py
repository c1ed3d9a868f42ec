"""What was measured on devices here: kept beside the runs, and what traces are judged by from then on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid.collect.gpu import measure as program
from pellucid.collect.gpu.ceilings import found, measure
from pellucid.core.errors import AskedWrongly, CannotAnswer, Failed
from pellucid.physics.ceilings import Measured
from pellucid.trace.load import ceilings_of
from pellucid.trace.timeline import Timeline
from pellucid.verbs.captures.ceilings import FILE, ceilings_here
from tests.trace.torch_profiler.written import HEAD, kernel, loaded, text

SAID = {
    "device": "NVIDIA H200", "missing": {"int8_flop_per_s": "no"},
    "rates": {"copy_bytes_per_s": {"median_per_s": 4.0e12, "least_per_s": 3.8e12, "most_per_s": 4.0e12, "calls": 9},
              "read_bytes_per_s": {"median_per_s": 4.1e12, "least_per_s": 4.1e12, "most_per_s": 4.1e12, "calls": 9},
              "bf16_flop_per_s": {"median_per_s": 650e12, "least_per_s": 700e12, "most_per_s": 700e12, "calls": 9}},
    "conditions": {"torch": "2.11.0", "side": 8192, "copy_gib": 2.0, "batches_count": 15},
}  # fmt: skip
OWN = Measured("NVIDIA H200", (("bf16", 700e12),), 4.1e12,
               "measured here on 2026-11-30: torch 2.11.0, 8192³ products, buffers of 2.0 GiB, best of 15")  # fmt: skip


def kept(home: Path, **changed: Any) -> Path:
    told = found(SAID)
    whole = {"device": told.device, "rates": told.rates, "spread": told.spread, "missing": told.missing,
             "conditions": told.conditions, "measured_ns": 1_795_996_800_000_000_000}  # fmt: skip
    (home / FILE).write_text(json.dumps({"NVIDIA H200": whole | changed}))
    return home


def ran_on(folder: Path, device: str) -> Timeline:
    return loaded(folder, text([kernel()], {**HEAD, "deviceProperties": [{"id": 0, "name": device}]}))


def test_the_better_of_copying_and_reading_is_what_memory_does(tmp_path: Path) -> None:
    assert ceilings_here(tmp_path) == ()
    assert ceilings_here(kept(tmp_path)) == (OWN,)
    assert found(SAID).spread["copy_bytes_per_s"] == pytest.approx(0.05)


@pytest.mark.parametrize("changed", [{"rates": {}}, {"rates": {"copy_bytes_per_s": -1.0}}, {"odd": 1},
                                     {"rates": {"copy_bytes_per_s": 4e12, "bf16_flop_per_s": "fast"}},
                                     {"conditions": {}}, {"measured_ns": None}])  # fmt: skip
def test_a_damaged_file_says_what_to_do(tmp_path: Path, changed: dict[str, Any]) -> None:
    with pytest.raises(AskedWrongly, match=r"cannot be read.*Try: pellucid doctor --ceilings, after removing it"):
        ceilings_here(kept(tmp_path, **changed))


@pytest.mark.parametrize("content", ["", "[]", "{", '{"NVIDIA H200": 5}'])
def test_what_is_no_measurement_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(AskedWrongly):
        ceilings_here(tmp_path)


def test_what_was_measured_here_counts_before_the_catalogue(tmp_path: Path) -> None:
    timeline = ran_on(tmp_path, "NVIDIA H200")
    before, after = ceilings_of(timeline), ceilings_of(timeline, (OWN,))
    assert before is not None and after is not None
    assert (before.bytes_per_s, after.bytes_per_s, after.memory.source) == (4.22e12, 4.1e12, OWN.source)
    assert (after.flop_per_s("bf16"), after.flop_per_s("fp8")) == (700e12, before.flop_per_s("fp8"))
    assert after.memory.peak_per_s == 4.8e12


def test_another_device_is_not_judged_by_it(tmp_path: Path) -> None:
    found_ = ceilings_of(ran_on(tmp_path, "NVIDIA H100 80GB HBM3"), (OWN,))
    assert found_ is not None and found_.memory.source != OWN.source


def test_a_device_that_the_catalogue_lacks_has_what_was_measured(tmp_path: Path) -> None:
    timeline = ran_on(tmp_path, "NVIDIA Z9")
    assert ceilings_of(timeline, (OWN,)) is None
    own = Measured("NVIDIA Z9", (("bf16", 1e12),), 1e9, "here")
    only = ceilings_of(timeline, (own,))
    assert only is not None and (only.bytes_per_s, only.flop_per_s("bf16"), only.basis) == (1e9, 1e12, "measured")


def test_a_python_without_torch_is_refused() -> None:
    with pytest.raises(CannotAnswer, match=r"has no torch.*Try: --engine-python PATH"):
        measure(sys.executable, {})
    with pytest.raises(CannotAnswer, match="cannot run /nowhere/python"):
        measure("/nowhere/python", {})


def test_a_rate_that_is_none_is_a_fault() -> None:
    with pytest.raises(Failed, match="copy_bytes_per_s"):
        odd = {"median_per_s": 1, "least_per_s": 1, "most_per_s": float("inf")}
        found({**SAID, "rates": {"copy_bytes_per_s": odd}})


def test_a_program_that_says_nothing_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import sys; print('a note'); sys.exit('out of luck')")
    monkeypatch.setattr(program, "__file__", str(broken))
    with pytest.raises(Failed, match="measured nothing: out of luck"):
        measure(sys.executable, {})
