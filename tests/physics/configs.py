"""What published config.json files say of the shape of models. Keys that say nothing of it are left out.

Verified, in stored copies of public repositories: Llama-3.3-70B, Kimi-K2, GLM-4.7, Llama-4-Maverick, Qwen3-Next-80B
(ai-dynamo/aiconfigurator, model_configs), MiniMax-M2, Kimi-Linear-48B and the DeepSeek-V3 and V2-Lite experts (fixtures
of other public repositories). The others are written from memory and checked by their published parameter counts.
"""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]


def llama(hidden: int, width: int, layers: int, heads: int, vocabulary: int = 128_256) -> Config:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "vocab_size": vocabulary,
        "intermediate_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": 8, "torch_dtype": "bfloat16", "attention_bias": False, "mlp_bias": False,
        "tie_word_embeddings": False,
    }  # fmt: skip


LLAMA_8B = llama(4096, 14_336, 32, 32)
LLAMA_70B = llama(8192, 28_672, 80, 64)
QWEN3_8B: Config = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12_288,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151_936, "tie_word_embeddings": False, "attention_bias": False, "use_sliding_window": False,
    "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN3_06B = {**QWEN3_8B, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
             "num_attention_heads": 16, "tie_word_embeddings": True}  # fmt: skip
QWEN3_30B: Config = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151_936, "tie_word_embeddings": False,
    "attention_bias": False, "use_sliding_window": False, "torch_dtype": "bfloat16",
}  # fmt: skip
QWEN15_MOE: Config = {
    "architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", "hidden_size": 2048,
    "intermediate_size": 5632, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
    "num_experts": 60, "num_experts_per_tok": 4, "decoder_sparse_step": 1, "num_hidden_layers": 24,
    "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151_936, "tie_word_embeddings": False,
    "use_sliding_window": False, "torch_dtype": "bfloat16",
}  # fmt: skip
MIXTRAL: Config = {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096,
    "intermediate_size": 14_336, "num_local_experts": 8, "num_experts_per_tok": 2, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32_000, "sliding_window": None,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
MISTRAL_7B: Config = {
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 4096,
    "intermediate_size": 14_336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 32_000, "sliding_window": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
GPT_OSS: Config = {
    "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
    "num_local_experts": 128, "num_experts_per_tok": 4, "num_hidden_layers": 36, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201_088, "sliding_window": 128, "attention_bias": True,
    "layer_types": ["sliding_attention", "full_attention"] * 18, "tie_word_embeddings": False,
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
                                   "lm_head"],
    },
}  # fmt: skip
GEMMA2_9B: Config = {
    "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14_336,
    "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
    "vocab_size": 256_000, "sliding_window": 4096, "torch_dtype": "float32",
}  # fmt: skip
# A nested text_config: what is the class's default is left out there.
GEMMA3_4B: Config = {
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "torch_dtype": "bfloat16",
    "text_config": {"hidden_size": 2560, "intermediate_size": 10_240, "model_type": "gemma3_text",
                    "num_hidden_layers": 34, "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model", "num_hidden_layers": 27},
}  # fmt: skip


def deepseek(layers: int, heads: int, experts: int, dense_layers: int, vocabulary: int, **more: Any) -> Config:
    """As large as DeepSeek-V3 in the widths that Kimi K2 shares."""
    return {
        "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168, "intermediate_size": 18_432,
        "moe_intermediate_size": 2048, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": heads, "n_routed_experts": experts, "n_shared_experts": 1, "num_experts_per_tok": 8,
        "first_k_dense_replace": dense_layers, "moe_layer_freq": 1, "q_lora_rank": 1536, "kv_lora_rank": 512,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "topk_method": "noaux_tc",
        "vocab_size": vocabulary, "tie_word_embeddings": False, "torch_dtype": "bfloat16", **more,
    }  # fmt: skip


FP8_BLOCKS: Config = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
DEEPSEEK_V3 = deepseek(61, 128, 256, 3, 129_280, model_type="deepseek_v3", num_nextn_predict_layers=1,
                       quantization_config=FP8_BLOCKS)  # fmt: skip
DEEPSEEK_V32 = {**DEEPSEEK_V3, "model_type": "deepseek_v32", "architectures": ["DeepseekV32ForCausalLM"],
                "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048}  # fmt: skip
KIMI_K2 = deepseek(61, 64, 384, 1, 163_840, model_type="kimi_k2", num_nextn_predict_layers=0)
DEEPSEEK_V2_LITE: Config = {
    "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "hidden_size": 2048,
    "intermediate_size": 10_944, "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16,
    "num_key_value_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "q_lora_rank": None, "kv_lora_rank": 512,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "topk_method": "greedy",
    "vocab_size": 102_400, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
GLM_45: Config = {
    "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "hidden_size": 5120,
    "intermediate_size": 12_288, "moe_intermediate_size": 1536, "num_hidden_layers": 92, "num_attention_heads": 96,
    "num_key_value_heads": 8, "head_dim": 128, "n_routed_experts": 160, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "first_k_dense_replace": 3, "use_qk_norm": True, "attention_bias": True,
    "num_nextn_predict_layers": 1, "vocab_size": 151_552, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
MINIMAX_M2: Config = {
    "architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax_m2", "hidden_size": 3072,
    "intermediate_size": 1536, "num_hidden_layers": 62, "num_attention_heads": 48, "num_key_value_heads": 8,
    "head_dim": 128, "num_local_experts": 256, "num_experts_per_tok": 8, "shared_intermediate_size": 0,
    "use_qk_norm": True, "use_routing_bias": True, "use_mtp": True, "num_mtp_modules": 3, "rotary_dim": 64,
    "vocab_size": 200_064, "tie_word_embeddings": False,
    "quantization_config": {**FP8_BLOCKS, "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"]},
}  # fmt: skip
MAVERICK: Config = {
    "architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4", "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16_384,
        "interleave_moe_layer_step": 2, "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8,
        "head_dim": 128, "num_local_experts": 128, "num_experts_per_tok": 1, "vocab_size": 202_048,
        "attention_chunk_size": 8192, "attention_bias": False, "use_qk_norm": False,
    },
    "vision_config": {"model_type": "llama4_vision_model", "num_hidden_layers": 34},
}  # fmt: skip
QWEN3_NEXT: Config = {
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_size": 2048,
    "intermediate_size": 5120, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
    "num_experts": 512, "num_experts_per_tok": 10, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "num_hidden_layers": 48,
    "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "partial_rotary_factor": 0.25,
    "vocab_size": 151_936, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
MINIMAX_01: Config = {
    "architectures": ["MiniMaxText01ForCausalLM"], "model_type": "minimax_text_01", "hidden_size": 6144,
    "intermediate_size": 9216, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
    "head_dim": 128, "num_local_experts": 32, "num_experts_per_tok": 2, "vocab_size": 200_064, "rotary_dim": 64,
    "attn_type_list": ([0] * 7 + [1]) * 10, "shared_intermediate_size": 0, "tie_word_embeddings": False,
}  # fmt: skip
JAMBA: Config = {
    "architectures": ["JambaForCausalLM"], "model_type": "jamba", "hidden_size": 4096, "intermediate_size": 14_336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "attn_layer_period": 8,
    "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 16,
    "num_experts_per_tok": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 256,
    "vocab_size": 65_536, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
MAMBA: Config = {
    "architectures": ["MambaForCausalLM"], "model_type": "mamba", "hidden_size": 2560, "intermediate_size": 5120,
    "num_hidden_layers": 64, "state_size": 16, "conv_kernel": 4, "time_step_rank": 160, "vocab_size": 50_280,
    "torch_dtype": "float32",
}  # fmt: skip
KIMI_LINEAR: Config = {
    "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "hidden_size": 2304,
    "intermediate_size": 9216, "moe_intermediate_size": 1024, "num_hidden_layers": 27, "num_attention_heads": 32,
    "num_key_value_heads": 32, "head_dim": 72, "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "num_experts": 256, "num_experts_per_token": 8,
    "num_shared_experts": 1, "first_k_dense_replace": 1, "moe_layer_freq": 1, "num_nextn_predict_layers": 0,
    "linear_attn_config": {
        "kda_layers": [n for n in range(1, 27) if n % 4], "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4,
    },
    "vocab_size": 163_840, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
