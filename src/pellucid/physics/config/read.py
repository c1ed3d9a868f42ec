"""config.json of a checkpoint, as a dictionary → Geometry of its language model.

    read({"model_type": "llama", "num_hidden_layers": 32, …}).layers[0].kind     == "full"
    read({"model_type": "unheard_of"})     CannotAnswer: … model_type 'unheard_of' is not known …

Of a multimodal model the language part is read (text_config); what is left out is named in Geometry.left_out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pellucid.core.errors import CannotAnswer
from pellucid.physics.config.families import Family, family_of
from pellucid.physics.config.keys import Keys, Noted
from pellucid.physics.formats import BF16, PLAIN, Format
from pellucid.physics.geometry import Geometry, Layer, Linear
from pellucid.physics.quantization import read_quantization

NESTED = ("text_config", "llm_config", "language_config")
# Asked for in this file, and not through Keys.
ELSEWHERE = {"model_type", "architectures", "tie_word_embeddings", "quantization_config", "torch_dtype", "dtype"}
# Of training, of numbers and of tokens: they change no shape.
NOT_ITS_SHAPE = {
    "attention_dropout", "attn_logit_softcapping", "auto_map", "aux_loss_alpha", "bos_token_id", "cache_implementation",
    "chunk_size_feed_forward", "classifier_dropout", "embd_pdrop", "eos_token_id", "final_logit_softcapping",
    "hidden_act", "hidden_activation", "hidden_dropout", "initial_context_length", "initializer_range", "id2label",
    "is_decoder", "is_encoder_decoder", "label2id", "layernorm_epsilon", "max_position_embeddings", "norm_topk_prob",
    "name_or_path", "output_attentions", "output_hidden_states", "output_router_logits", "pad_token_id",
    "pretraining_tp", "query_pre_attn_scalar", "resid_pdrop", "rms_norm_eps", "rope_interleave", "rope_local_base_freq",
    "rope_parameters", "rope_scaling", "rope_theta", "routed_scaling_factor", "router_aux_loss_coef",
    "router_jitter_noise", "scoring_func", "seq_aux", "swiglu_limit", "topk_group", "n_group", "topk_method",
    "transformers_version", "transformers.js_config", "use_cache", "unsloth_fixed", "_name_or_path", "ep_size",
    "return_dict", "task_specific_params", "problem_type", "experts_per_token",
}  # fmt: skip
OUTSIDE = ("vision_config", "audio_config", "speech_config", "vision_tower", "perceiver_config")


def read(config: Mapping[str, Any]) -> Geometry:
    """Raises CannotAnswer that names the key or the type that is missing or not known."""
    return _read(config, set())


def unread(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys of the language model that say nothing here and are not known to say nothing of its shape."""
    asked: set[str] = set()
    _read(config, asked)
    text = _text(config)
    return tuple(sorted(k for k, v in text.items() if v is not None and k not in asked | ELSEWHERE | NOT_ITS_SHAPE))


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part about the language model."""
    inner = next((config[name] for name in NESTED if isinstance(config.get(name), Mapping)), None)
    return config if inner is None else {**inner, "model_type": inner.get("model_type", config.get("model_type", ""))}


def _read(config: Mapping[str, Any], asked: set[str]) -> Geometry:
    text = _text(config)
    keys = Keys(text, str(text.get("model_type") or ""))
    family = family_of(keys, _architecture(text, config))
    given = {**dict(family.defaults), **{k: v for k, v in text.items() if v is not None}}
    keys = Keys(Noted(given, asked), keys.model_type)
    layers = tuple(layer(family, keys, index) for index in range(keys.layers_count))
    said = [c["tie_word_embeddings"] for c in (text, config) if c.get("tie_word_embeddings") is not None]
    quantization = config.get("quantization_config") or text.get("quantization_config")
    return Geometry(
        model_type=keys.model_type, hidden=keys.count("hidden_size", "d_model"), vocabulary=keys.count("vocab_size"),
        layers=layers, mtp_layers=_mtp(family, keys, len(layers)), tied=bool(said[0]) if said else family.tied,
        dtype=_dtype(text, config), quantization=read_quantization(quantization), names=family.names,
        left_out=tuple(name for name in OUTSIDE if config.get(name)),
    )  # fmt: skip


def _architecture(text: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    listed = text.get("architectures") or config.get("architectures") or [""]
    return str(listed[0])


def layer(family: Family, keys: Keys, index: int) -> Layer:
    return Layer(family.mixer(keys, index), family.ffn(keys, index), family.norms_count)


def _mtp(family: Family, keys: Keys, layers_count: int) -> tuple[Layer, ...]:
    """Each head is a layer of the last one's shape, with full attention. Two keys name them."""
    heads = keys.optional("num_nextn_predict_layers", "mtp_num_hidden_layers") or 0
    if not heads:
        return ()
    made = [layer(family, keys, index) for index in range(layers_count)]
    like = next((found for found in reversed(made) if not isinstance(found.mixer, Linear)), None)
    if like is None:
        raise CannotAnswer("config.json names MTP heads, and no layer with attention that they could be like")
    return tuple(replace(like) for _ in range(heads))


def _dtype(text: Mapping[str, Any], config: Mapping[str, Any]) -> Format:
    """Of what is not quantized. bf16 where the config does not say: what all families here are published in."""
    name = next((str(c[k]) for c in (text, config) for k in ("torch_dtype", "dtype") if c.get(k)), "")
    if name and name not in PLAIN:
        raise CannotAnswer(f"config.json: dtype {name!r} is not known; known are {', '.join(PLAIN)}")
    return PLAIN.get(name, BF16)
