from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pellucid.core.errors import CannotAnswer
from pellucid.physics.config.read import read
from pellucid.physics.formats import (
    FP8,
    FP8_CHANNEL,
    INT8_CHANNEL,
    MXFP4,
    NVFP4,
    NVFP4_WEIGHTS,
    Format,
    fp8_blocks,
    grouped,
)
from pellucid.physics.parameters import stored_format, weight_bytes
from pellucid.physics.quantization import PLAIN, read_quantization
from pellucid.physics.tensors import tensors
from tests.physics import configs

Q = "model.layers.5.self_attn.q_proj"
EXPERT = "model.layers.5.mlp.experts.0.gate_proj"


def packed(kind: str, bits: int, inputs: bool = False, **more: Any) -> Mapping[str, Any]:
    group = {"targets": ["Linear"], "weights": {"type": kind, "num_bits": bits, **more},
             "input_activations": {"num_bits": bits} if inputs else None}  # fmt: skip
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"]}


@pytest.mark.parametrize(("config", "expected"), [
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, fp8_blocks(128, 128)), ({"quant_method": "fp8"}, FP8),
    ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, grouped(4, 128, True)),
    ({"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": True}, grouped(4, 64, True)),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, NVFP4),
    ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}}, FP8),
    (packed("float", 4, True, group_size=16), NVFP4), (packed("float", 4, group_size=16), NVFP4_WEIGHTS),
    (packed("float", 4, group_size=32), MXFP4), (packed("float", 8, True, strategy="channel"), FP8_CHANNEL),
    (packed("float", 8, True, strategy="block", block_structure=[128, 128]), fp8_blocks(128, 128)),
    (packed("int", 8, True, strategy="channel"), INT8_CHANNEL),
    (packed("int", 4, group_size=32, symmetric=True), grouped(4, 32, False)),
    (packed("int", 4, group_size=128, symmetric=False), grouped(4, 128, True)),
])  # fmt: skip
def test_methods_and_their_formats(config: Mapping[str, Any], expected: Format) -> None:
    assert read_quantization(config).format_of(Q) == expected


@pytest.mark.parametrize(("config", "named"), [
    ({"quant_method": "bitsandbytes"}, "bitsandbytes"), ({"bits": 4}, "quant_method ''"),
    ({"quant_method": "awq", "bits": 4}, "group_size"), ({"quant_method": "modelopt", "quant_algo": "W3"}, "W3"),
    ({"quant_method": "compressed-tensors"}, "config_groups"), (packed("float", 6), "'float' with 6"),
])  # fmt: skip
def test_a_method_that_is_not_known_is_named(config: Mapping[str, Any], named: str) -> None:
    with pytest.raises(CannotAnswer, match=named):
        read_quantization(config)


def test_no_method_leaves_all_as_it_is() -> None:
    assert read_quantization(None) == read_quantization({}) == PLAIN
    assert PLAIN.format_of(Q) is None


@pytest.mark.parametrize(("pattern", "module", "ignored"), [
    ("model.layers.5.self_attn*", Q, True), ("model.layers.4.self_attn*", Q, False),
    ("re:.*self_attn.*", Q, True), ("re:.*mlp.*", Q, False), (Q, Q, True), ("model.layers.5", Q, True),
    ("model.layers.5", Q.replace("5", "50"), False), ("q_proj", Q, True), ("proj", Q, False),
    ("language_model.model.layers.5.self_attn.q_proj", Q, True), ("*.experts.*", EXPERT, True), ("gate", EXPERT, False),
    ("model.language_model.layers.5.mlp.gate", "model.layers.5.mlp.gate", True),
])  # fmt: skip
def test_modules_left_out_are_matched_as_the_methods_do(pattern: str, module: str, ignored: bool) -> None:
    found = read_quantization({"quant_method": "fp8", "ignored_layers": [pattern]})
    assert (found.format_of(module) is None) == ignored


def test_the_output_matrix_is_quantized_only_where_a_method_takes_it() -> None:
    assert read_quantization({"quant_method": "fp8"}).format_of("lm_head") is None
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    assert read_quantization(gptq).format_of("lm_head") is None
    assert read_quantization({**gptq, "lm_head": True}).format_of("lm_head") == grouped(4, 128, True)
    assert read_quantization(packed("int", 8, True)).format_of("lm_head") is None
    assert read_quantization({**packed("int", 8, True), "ignore": []}).format_of("lm_head") == INT8_CHANNEL


def formats(config: configs.Config) -> dict[tuple[str, str], set[str]]:
    geometry = read(config)
    found: dict[tuple[str, str], set[str]] = {}
    for tensor in tensors(geometry):
        found.setdefault((tensor.part, tensor.product), set()).add(stored_format(geometry, tensor).name)
    return found


def test_in_gpt_oss_the_experts_alone_are_narrow() -> None:
    found = formats(configs.GPT_OSS)
    assert {key for key, names in found.items() if "mxfp4" in names} == {("routed_experts", "experts")}
    assert found["attention", "qkv"] == found["lm_head", "lm_head"] == {"bf16"}


def test_in_deepseek_matrices_are_fp8_and_what_is_sensitive_is_not() -> None:
    found = formats(configs.DEEPSEEK_V3)
    narrow = {key for key, names in found.items() if names == {"fp8_block"}}
    assert {("attention", "kv_b"), ("routed_experts", "experts"), ("dense_ffn", "down"), ("mtp", "o")} <= narrow
    plain = {("router", "router"), ("embedding", ""), ("lm_head", "lm_head"), ("norm", ""), ("mtp", "eh")}
    assert {key for key in plain if found[key] == {"bf16"}} == plain


def test_layers_may_differ() -> None:
    layers = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.layers.0.*", "lm_head"]}
    some = read({**configs.LLAMA_8B, "quantization_config": layers})
    every = read({**configs.LLAMA_8B, "quantization_config": {**layers, "ignore": ["lm_head"]}})
    first = [t for t in tensors(some) if t.layer == 0 and t.product]
    assert {stored_format(some, t).name for t in first} == {"bf16"}
    gained = sum(t.parameters_count * (2 - 4.5 / 8) - 4 for t in first)
    assert weight_bytes(some) - weight_bytes(every) == gained
    assert weight_bytes(replace(some, quantization=PLAIN)) == 2 * 8_030_261_248
