"""Small model folders with random weights, for everything that does not need sensible text.

    .venv-engine/bin/python tools/models/tiny.py .models [NAME …]

    tiny-dense    4 layers       tiny-shallow  1 narrow layer, 512 words: a step is nearly all host
    tiny-moe      16 experts     tiny-mla      latent attention
    tiny-skewed   16 experts, routed by the token: see `skew`

The tokenizer knows the words t4 … t4095 (t511), so a prompt of exactly n tokens is n such words: "t17 t8 t99". Weights
are drawn by a fixed seed and saved, each gate its own: with an engine's dummy weights all MoE layers route alike.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

SEED = 20_26
# Not t0 … t3: a special token is cut out wherever it occurs, also from the middle of t141.
SPECIAL = ("<unk>", "<eos>", "<bos>", "<pad>")

SHARED = {
    "vocab_size": 4096,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-6,
    "eos_token_id": SPECIAL.index("<eos>"),
    "bos_token_id": SPECIAL.index("<bos>"),
}
GROUPED = {**SHARED, "num_key_value_heads": 2, "head_dim": 64}
NARROW = {
    **GROUPED, "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 1,
    "num_key_value_heads": 1,
}  # fmt: skip
EXPERTS = {
    "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 128, "norm_topk_prob": True,
    "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
LATENT = {
    "num_key_value_heads": 4, "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "moe_intermediate_size": 128, "first_k_dense_replace": 1, "topk_method": "greedy", "n_group": 1, "topk_group": 1,
    "norm_topk_prob": False, "routed_scaling_factor": 1.0,
}  # fmt: skip

MODELS: dict[str, tuple[str, dict[str, object]]] = {
    "tiny-dense": ("qwen3", {**GROUPED, "num_hidden_layers": 4}),
    "tiny-shallow": ("qwen3", {**NARROW, "num_hidden_layers": 1}),
    "tiny-moe": ("qwen3_moe", {**GROUPED, **EXPERTS, "num_hidden_layers": 4}),
    "tiny-skewed": ("qwen3_moe", {**GROUPED, **EXPERTS, "num_hidden_layers": 4}),
    "tiny-mla": ("deepseek_v2", {**SHARED, **LATENT, "num_hidden_layers": 3}),
}


def tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    names = [*SPECIAL, *(f"t{i}" for i in range(len(SPECIAL), vocabulary))]
    words = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="<eos>", bos_token="<bos>", pad_token="<pad>"
    )


def build(folder: Path, kind: str, shape: dict[str, object]) -> None:
    torch.manual_seed(SEED)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **shape), dtype=torch.bfloat16)
    if folder.name == "tiny-skewed":
        skew(model)
    model.save_pretrained(folder)
    tokenizer(model.config.vocab_size).save_pretrained(folder)


def skew(model: torch.nn.Module) -> None:
    """Which four experts a token takes is known in advance, by the quarter of the vocabulary it is in and the layer.

        quarter      0        1        2        3          t4 … t1023 are quarter 0
        even layer   0…3      4…7      8…11     12…15
        odd layer    4…7      0…3      12…15    8…11

    Two coordinates of the embedding, far larger than what the layers add to them, say which quarter it is.
    """
    quarter = model.config.vocab_size // 4
    signs = torch.tensor([(a, b) for a in (1.0, -1.0) for b in (1.0, -1.0)])
    with torch.no_grad():
        model.model.embed_tokens.weight[:, :2] = 4 * signs.repeat_interleave(quarter, dim=0)
        for n, layer in enumerate(model.model.layers):
            turned = signs[[1, 0, 3, 2]] if n % 2 else signs
            layer.mlp.gate.weight[:, :2] = turned.repeat_interleave(4, dim=0)


def main(out: Path, names: list[str]) -> None:
    for name in names or list(MODELS):
        build(out / name, *MODELS[name])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
