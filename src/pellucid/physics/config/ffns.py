"""The feed-forward part of each layer: dense, or experts."""

from __future__ import annotations

from pellucid.core.errors import CannotAnswer
from pellucid.physics.config.keys import Keys
from pellucid.physics.geometry import Dense, Ffn, Moe


def dense(keys: Keys, _: int = 0) -> Dense:
    """Gate, up and down."""
    return Dense(keys.count("intermediate_size"), bias=keys.flag("mlp_bias"))


def mixtral(keys: Keys, _: int) -> Moe:
    return Moe(keys.count("num_local_experts"), keys.count("num_experts_per_tok"), keys.count("intermediate_size"))


def minimax_m2(keys: Keys, _: int) -> Moe:
    return Moe(
        keys.count("num_local_experts"), keys.count("num_experts_per_tok"), keys.count("intermediate_size"),
        shared_width=keys.optional("shared_intermediate_size") or 0,
        router_bias=keys.flag("use_routing_bias", absent=True),
    )  # fmt: skip


def gpt_oss(keys: Keys, _: int) -> Moe:
    """Router and experts have biases."""
    return Moe(
        keys.count("num_local_experts"), keys.count("num_experts_per_tok", "experts_per_token"),
        keys.count("intermediate_size"), router_bias=True, expert_bias=True,
    )  # fmt: skip


def qwen(keys: Keys, index: int) -> Ffn:
    """Experts in each decoder_sparse_step'th layer that mlp_only_layers does not name; a gated shared one in some."""
    step = keys.optional("decoder_sparse_step") or 1
    if index in keys.entries("mlp_only_layers") or (index + 1) % step:
        return dense(keys)
    shared = keys.optional("shared_expert_intermediate_size") or 0
    return Moe(
        keys.count("num_experts", "num_local_experts"), keys.count("num_experts_per_tok"),
        keys.count("moe_intermediate_size"), shared,
        shared_gate=bool(shared),
    )  # fmt: skip


def deepseek(keys: Keys, index: int) -> Ffn:
    """Dense in the first layers, then experts beside shared ones. Also GLM-4.x and Kimi."""
    step = keys.optional("moe_layer_freq") or 1
    experts = keys.optional("n_routed_experts", "num_experts")
    listed = keys.entries("mlp_layer_types")
    first = keys.optional("first_k_dense_replace") or 0
    if experts is None or (listed[index] == "dense" if listed else index < first or index % step):
        return dense(keys)
    width = keys.count("moe_intermediate_size")
    # A correction bias belongs to routers that balance without a loss: DeepSeek-V3, and all that follow it.
    bias = keys.text("topk_method") == "noaux_tc" or keys.model_type not in ("deepseek_v2", "deepseek")
    return Moe(
        experts, keys.count("num_experts_per_tok", "num_experts_per_token"), width,
        width * (keys.optional("n_shared_experts", "num_shared_experts") or 0), router_bias=bias,
    )  # fmt: skip


def llama4(keys: Keys, index: int) -> Ffn:
    """Experts in each interleave_moe_layer_step'th layer, with one shared expert as wide as a routed one."""
    listed = keys.entries("moe_layers")
    step = keys.optional("interleave_moe_layer_step")
    if not listed and step is None:
        raise CannotAnswer("config.json has neither moe_layers nor interleave_moe_layer_step: experts cannot be told")
    if index in listed if listed else step and (index + 1) % step == 0:
        width = keys.count("intermediate_size")
        return Moe(keys.count("num_local_experts"), keys.count("num_experts_per_tok"), width, shared_width=width)
    return Dense(keys.count("intermediate_size_mlp"))


def jamba(keys: Keys, index: int) -> Ffn:
    if index % keys.count("expert_layer_period") == keys.count("expert_layer_offset"):
        return Moe(keys.count("num_experts"), keys.count("num_experts_per_tok"), keys.count("intermediate_size"))
    return dense(keys)


def none(_: Keys, __: int) -> None:
    """Mamba's layers have none."""
