"""Weights and KV in another precision: bytes by hand, and refusals that say what to do."""

from __future__ import annotations

import pytest

from pellucid.catalog.devices.gpus import devices
from pellucid.core.errors import AskedWrongly
from pellucid.physics.cache import kv_bytes_per_token
from pellucid.physics.config.read import read
from pellucid.physics.parameters import count, weight_bytes
from pellucid.sim.paper.precision import emulated, in_precision, kv_format
from tests.physics import configs

LLAMA, DEEPSEEK = read(configs.LLAMA_8B), read(configs.DEEPSEEK_V3)
PLAIN = 2 * LLAMA.vocabulary * LLAMA.hidden + count(LLAMA).of("norm")     # embedding, output matrix, norms
MATRICES = count(LLAMA).total - PLAIN


@pytest.mark.parametrize(("name", "gpu", "bits", "tensors_bytes"), [
    ("bf16", "h200", 16, 0), ("fp8", "h200", 8, 4 * 7 * 32), ("nvfp4", "b200", 4.5, 4 * 7 * 32),
    ("mxfp4", "h200", 4.25, 0), ("int4", "a100_sxm_80", 4 + 20 / 128, 0), ("fp8_block", "h200", 8 + 32 / 128**2, 0),
])  # fmt: skip
def test_bytes_of_an_eight_b_model(name: str, gpu: str, bits: float, tensors_bytes: int) -> None:
    """7 matrices in each of 32 layers, with their scales; the rest stays in bf16."""
    found = weight_bytes(in_precision(LLAMA, name, devices()[gpu]))
    assert found == pytest.approx(MATRICES * bits / 8 + tensors_bytes + PLAIN * 2, rel=1e-9)


@pytest.mark.parametrize(("name", "gpu", "words"), [
    ("fp8", "a100_sxm_80", r"does not multiply in fp8. Try: --precision fp8_weights"),
    ("nvfp4", "h200", r"does not multiply in fp4. Try: --precision nvfp4_weights"),
    ("fp9", "h200", r"'fp9' is not known. Known are bf16"),
])  # fmt: skip
def test_what_a_device_cannot_do_is_refused_with_a_way_out(name: str, gpu: str, words: str) -> None:
    with pytest.raises(AskedWrongly, match=words):
        in_precision(LLAMA, name, devices()[gpu])


def test_the_way_out_is_one() -> None:
    for name, gpu in (("fp8_weights", "a100_sxm_80"), ("nvfp4_weights", "h200")):
        assert weight_bytes(in_precision(LLAMA, name, devices()[gpu])) < weight_bytes(LLAMA) / 1.5


def test_none_is_the_checkpoints_own() -> None:
    assert in_precision(DEEPSEEK, None, devices()["h200"]) is DEEPSEEK
    assert in_precision(DEEPSEEK, "bf16", devices()["h200"]).quantization.groups == ()


def test_a_checkpoint_that_the_device_only_stores() -> None:
    assert emulated(DEEPSEEK, devices()["a100_sxm_80"]) == ("fp8_block",)
    assert emulated(DEEPSEEK, devices()["h200"]) == ()


def test_kv_in_fp8_is_half() -> None:
    assert kv_bytes_per_token(LLAMA, kv_format(LLAMA, "fp8")) == 65_536
    assert kv_bytes_per_token(DEEPSEEK, kv_format(DEEPSEEK, "fp8")) == 35_136
    sparse = read(configs.DEEPSEEK_V32)
    assert kv_bytes_per_token(sparse, kv_format(sparse, "fp8")) == 61 * (656 + 132)     # its engines' own layout
    with pytest.raises(AskedWrongly, match="'int3' is not known"):
        kv_format(LLAMA, "int3")
