"""Names of ranges around steps, as engines and our probe write them."""

from __future__ import annotations

import pytest
from pellucid_probe.capture import LABEL

from pellucid.catalog.kernels.step_labels import Label, patterns, read


@pytest.mark.parametrize(("name", "wanted"), [
    ("execute_context_8(8000)_generation_0(0)", ("prefill", 8, 8000, 0, 0)),
    ("execute_context_17(16376)_generation_8(8)", ("mixed", 17, 16376, 8, 8)),
    ("execute_context_0(0)_generation_64(256)", ("decode", 0, 0, 64, 256)),
    ("execute_context_0(0)_generation_0(0)", (None, 0, 0, 0, 0)),
    ("step[DECODE bs=32]", ("decode", 0, 0, 32, 32)),
    ("step[EXTEND bs=4 toks=8000]", ("prefill", 4, 8000, 0, 0)),
    ("step[VERIFY bs=4 toks=16]", ("decode", 0, 0, 4, 16)),
    ("step[MIXED bs=4 toks=900]", ("mixed", None, None, None, None)),
    ("step[SOMETHING bs=4]", (None, None, None, None, None)),
])  # fmt: skip
def test_a_range_says_the_batch(name: str, wanted: tuple[object, ...]) -> None:
    found = read(name)
    assert found is not None
    assert (found.phase, found.prefill_requests, found.prefill_tokens, found.decode_requests, found.decode_tokens) \
        == wanted  # fmt: skip


def test_our_own_ranges_are_read() -> None:
    found = read(f"{LABEL}4711 execute")
    assert found == Label("pellucid step=4711 execute", 4711, "execute")


@pytest.mark.parametrize("name", ["", "step", "execute_context_8", "## Call CompiledFxGraph ##", "ProfilerStep#3"])
def test_other_ranges_are_no_steps(name: str) -> None:
    assert read(name) is None


def test_every_pattern_has_its_source() -> None:
    assert all(pattern.source and pattern.engine for _, pattern in patterns())
