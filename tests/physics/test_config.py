"""What is read of a config.json, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pellucid.core.errors import CannotAnswer
from pellucid.physics.config.read import read, unread
from pellucid.physics.formats import BF16, FP32
from pellucid.physics.geometry import Attention, Dense, Linear, Mla, Moe
from tests.physics import configs
from tests.physics.configs import Config


@pytest.mark.parametrize(("config", "key", "named"), [
    (configs.LLAMA_8B, "num_hidden_layers", "num_hidden_layers"), (configs.LLAMA_8B, "hidden_size", "hidden_size"),
    (configs.LLAMA_8B, "vocab_size", "vocab_size"), (configs.QWEN3_30B, "num_experts", "num_experts"),
    (configs.DEEPSEEK_V3, "kv_lora_rank", "kv_lora_rank"), (configs.GPT_OSS, "num_local_experts", "num_local_exp"),
    (configs.QWEN3_NEXT, "linear_num_value_heads", "linear_num_value_heads"),
    (configs.MINIMAX_01, "attn_type_list", "attn_type_list"), (configs.JAMBA, "attn_layer_period", "attn_layer_per"),
    (configs.KIMI_LINEAR, "linear_attn_config", "linear_attn_config"), (configs.LLAMA_8B, "model_type", "model_type"),
], ids=lambda v: v if isinstance(v, str) else "")  # fmt: skip
def test_what_is_missing_is_named(config: Config, key: str, named: str) -> None:
    with pytest.raises(CannotAnswer, match=named):
        read({k: v for k, v in config.items() if k != key})


@pytest.mark.parametrize(("changes", "named"), [
    ({"model_type": "unheard_of", "architectures": ["UnheardOfForCausalLM"]}, "unheard_of"),
    ({"num_kv_shared_layers": 10}, "num_kv_shared_layers"), ({"num_key_value_heads": 5}, "5 KV heads"),
    ({"num_hidden_layers": "32"}, "num_hidden_layers is '32'"), ({"num_hidden_layers": True}, "num_hidden_layers"),
    ({"hidden_size": -1}, "hidden_size"), ({"torch_dtype": "int3"}, "int3"),
    ({"quantization_config": {"quant_method": "magic"}}, "magic"),
])  # fmt: skip
def test_what_is_not_known_is_refused(changes: Config, named: str) -> None:
    with pytest.raises(CannotAnswer, match=named):
        read({**configs.LLAMA_8B, **changes})


@pytest.mark.parametrize(("config", "changes", "named"), [
    (configs.GPT_OSS, {"layer_types": ["full_attention"]}, "1 layer_types for 36"),
    (configs.GPT_OSS, {"layer_types": ["odd_attention"] * 36}, "odd_attention"),
    (configs.KIMI_LINEAR, {"num_hidden_layers": 28}, "layer 28 is in neither"),
])
def test_lists_that_do_not_fit_are_refused(config: Config, changes: Config, named: str) -> None:
    with pytest.raises(CannotAnswer, match=named):
        read({**config, **changes})


def mixer(config: Config, index: int = 0, **changes: Any) -> Any:
    return read({**config, **changes}).layers[index].mixer


def test_a_head_is_as_wide_as_the_config_says_or_its_share_of_the_hidden_size() -> None:
    assert (mixer(configs.LLAMA_8B).key_dim, mixer(configs.LLAMA_8B, head_dim=64).key_dim) == (128, 64)
    assert (mixer(configs.QWEN3_30B).key_dim, mixer(configs.QWEN3_30B, head_dim=None).key_dim) == (128, 64)


def test_kv_heads_are_all_heads_where_none_are_named_and_one_in_multi_query_attention() -> None:
    assert mixer(configs.LLAMA_8B, num_key_value_heads=None).kv_heads_count == 32
    assert mixer({**configs.GEMMA2_9B, "model_type": "gemma"}, num_key_value_heads=1).kv_heads_count == 1


def test_biases_norms_gates_and_sinks() -> None:
    assert mixer({**configs.QWEN3_8B, "model_type": "qwen2"}).qkv_bias
    assert not mixer({**configs.QWEN3_8B, "model_type": "qwen2"}).o_bias
    assert mixer(configs.LLAMA_8B, attention_bias=True).o_bias
    assert (mixer(configs.QWEN3_8B).qk_norm, mixer(configs.MINIMAX_M2).qk_norm, mixer(configs.LLAMA_8B).qk_norm) == (
        "head", "all", "none")  # fmt: skip
    assert (mixer(configs.QWEN3_NEXT, 3).gate, mixer(configs.GPT_OSS).sinks) == (True, True)
    assert read({**configs.LLAMA_8B, "mlp_bias": True}).layers[0].ffn == Dense(14_336, bias=True)


@pytest.mark.parametrize(("config", "windows"), [
    (configs.GEMMA2_9B, [4096, None, 4096, None]), (configs.GEMMA3_4B, [1024] * 5 + [None]),
    (configs.GPT_OSS, [128, None]), (configs.MISTRAL_7B, [4096] * 3), (configs.QWEN3_8B, [None] * 3),
    ({**configs.MISTRAL_7B, "sliding_window": None}, [None] * 3), (configs.MAVERICK, [8192] * 3 + [None, 8192]),
    ({**configs.QWEN3_8B, "use_sliding_window": True, "sliding_window": 99, "max_window_layers": 2}, [None, None, 99]),
    ({**configs.QWEN3_8B, "sliding_window": 99, "max_window_layers": 2}, [None] * 3),
    ({**configs.GPT_OSS, "layer_types": ["full_attention"] * 36}, [None, None]),
])  # fmt: skip
def test_windows_by_layer(config: Config, windows: list[int | None]) -> None:
    found = [layer.mixer for layer in read(config).layers[: len(windows)]]
    assert [m.window_tokens for m in found if isinstance(m, Attention)] == windows


def test_positions_are_rotated_in_as_far_as_the_config_says() -> None:
    assert (mixer(configs.LLAMA_8B).rotary_dim, mixer(configs.MINIMAX_M2).rotary_dim) == (128, 64)
    assert mixer(configs.QWEN3_NEXT, 3).rotary_dim == 64
    assert mixer(configs.QWEN3_NEXT, 3, partial_rotary_factor=None, rope_parameters={"partial_rotary_factor": 0.5}
                 ).rotary_dim == 128  # fmt: skip
    assert (mixer(configs.MAVERICK, 2).rotary_dim, mixer(configs.MAVERICK, 3).rotary_dim) == (128, 0)


def test_experts_are_where_they_are() -> None:
    def sparse(config: Config) -> list[int]:
        return [i for i, layer in enumerate(read(config).layers) if isinstance(layer.ffn, Moe)]

    assert sparse(configs.DEEPSEEK_V3) == list(range(3, 61))
    assert sparse(configs.MAVERICK) == list(range(1, 48, 2))
    assert sparse(configs.JAMBA) == list(range(1, 32, 2))
    assert sparse({**configs.QWEN3_30B, "decoder_sparse_step": 2, "mlp_only_layers": [1]}) == list(range(3, 48, 2))
    assert sparse({**configs.DEEPSEEK_V3, "mlp_layer_types": ["dense"] * 60 + ["sparse"]}) == [60]
    assert read(configs.DEEPSEEK_V2_LITE).layers[1].ffn == Moe(64, 6, 1408, 2816)
    assert read(configs.DEEPSEEK_V3).layers[0].ffn == Dense(18_432)


def test_latent_attention_with_and_without_a_query_rank() -> None:
    assert mixer(configs.DEEPSEEK_V3) == Mla(128, 1536, 512, 128, 64, 128)
    assert mixer(configs.DEEPSEEK_V2_LITE).q_rank is None
    assert mixer(configs.DEEPSEEK_V32).indexer.top_tokens == 2048


def test_linear_layers() -> None:
    assert mixer(configs.QWEN3_NEXT) == Linear("gated_delta", 16, 32, 128, 128, 4)
    assert mixer(configs.KIMI_LINEAR) == Linear("kda", 32, 32, 128, 128, 4)
    assert mixer(configs.MINIMAX_01) == Linear("lightning", 64, 64, 128, 128)
    assert mixer(configs.JAMBA) == Linear("mamba1", 1, 8192, 16, 1, 4, 256, inner_norms=True)
    automatic = mixer(configs.JAMBA, mamba_dt_rank="auto")
    assert isinstance(automatic, Linear) and automatic.rank == 256


def test_the_language_model_is_read_out_of_a_multimodal_one_and_what_is_left_out_is_named() -> None:
    found = read(configs.GEMMA3_4B)
    assert (found.model_type, found.left_out, found.tied) == ("gemma3_text", ("vision_config",), True)
    outer = {"model_type": "mistral3", "text_config": configs.MISTRAL_7B, "tie_word_embeddings": True}
    assert read({**outer, "text_config": {**configs.MISTRAL_7B, "tie_word_embeddings": None}}).tied
    assert not read(outer).tied


def test_one_model_type_of_two_shapes_is_told_by_the_architecture() -> None:
    assert read({**configs.MINIMAX_M2, "model_type": "minimax"}).layers == read(configs.MINIMAX_M2).layers
    with pytest.raises(CannotAnswer, match="'minimax'"):
        read({**configs.MINIMAX_M2, "model_type": "minimax", "architectures": ["Other"]})


def test_mtp_heads_are_layers_like_the_last_with_attention() -> None:
    assert read(configs.DEEPSEEK_V3).mtp_layers == (read(configs.DEEPSEEK_V3).layers[-1],)
    assert read(configs.KIMI_K2).mtp_layers == ()
    made = read({**configs.QWEN3_NEXT, "mtp_num_hidden_layers": 2}).mtp_layers
    assert [layer.kind for layer in made] == ["full", "full"]
    with pytest.raises(CannotAnswer, match="MTP"):
        read({**configs.MAMBA, "num_nextn_predict_layers": 1})


def test_the_type_of_the_weights() -> None:
    assert (read(configs.GEMMA2_9B).dtype, read(configs.GPT_OSS).dtype) == (FP32, BF16)
    assert read({**configs.GPT_OSS, "dtype": "float32"}).dtype == FP32


def test_keys_that_say_nothing_here_are_named() -> None:
    assert unread({**configs.LLAMA_8B, "frobnication": 3, "rms_norm_eps": 1e-5, "rope_theta": 5e5}) == ("frobnication",)
    assert unread({**configs.LLAMA_8B, "frobnication": None}) == ()
    assert unread(configs.GEMMA3_4B) == ()
    assert unread({"model_type": "mistral3", "text_config": {**configs.MISTRAL_7B, "twist": 1}}) == ("twist",)
    assert unread({**configs.GLM_45, "twist": 1}) == ("twist",)       # a family with a default for a missing key


def test_experts_by_their_older_and_their_newer_name() -> None:
    newer = {**configs.QWEN3_30B, "num_experts": None, "num_local_experts": 128}
    assert read(newer) == read(configs.QWEN3_30B)
