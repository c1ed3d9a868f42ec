"""The shape of a model: layers, each with a mixer (attention of some kind) and a feed-forward part.

    geometry = read(json.loads(text))          physics.config.read
    geometry.layers[0].mixer                   == Attention(heads_count=32, kv_heads_count=8, key_dim=128, …)
    Counter(layer.kind for layer in geometry.layers)   == {"sliding": 29, "full": 5}

Counts only. What they cost in parameters is in `tensors`, in cache in `cache`, in a step in `step`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pellucid.physics.formats import BF16, Format
from pellucid.physics.quantization import PLAIN, Quantization

Kind = Literal["full", "sliding", "mla", "linear"]
Rule = Literal["gated_delta", "kda", "lightning", "mamba1"]


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head, grouped-query or multi-query attention."""

    heads_count: int
    kv_heads_count: int
    key_dim: int
    value_dim: int
    window_tokens: int | None = None
    chunked: bool = False          # the window begins anew at its multiples, instead of moving along (Llama 4)
    rotary_dim: int = 0            # 0 where positions are not rotated in
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: Literal["none", "head", "all"] = "none"    # over a head's width, or over all heads
    gate: bool = False             # the query projection makes a gate of the output as well
    sinks: bool = False            # a learned logit for each head

    @property
    def kind(self) -> Kind:
        return "full" if self.window_tokens is None else "sliding"


@dataclass(frozen=True, slots=True)
class Indexer:
    """Picks the cached tokens that sparse attention reads (DeepSeek-V3.2)."""

    heads_count: int
    dim: int
    top_tokens: int


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention: keys and values are made from one cached vector of kv_rank + rope_dim."""

    heads_count: int
    q_rank: int | None             # None where queries are projected in one step
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    indexer: Indexer | None = None
    bias: bool = False

    @property
    def kind(self) -> Kind:
        return "mla"


@dataclass(frozen=True, slots=True)
class Linear:
    """Attention whose state does not grow: value_heads × key_dim × value_dim elements a request.

    mamba1 has its inner channels as value heads of width 1 and the state's size as key_dim.
    """

    rule: Rule
    key_heads_count: int
    value_heads_count: int
    key_dim: int
    value_dim: int
    conv_width: int = 1            # positions that the short convolution looks at; 1 is none
    rank: int = 0                  # of the step's projection in mamba1
    inner_norms: bool = False      # over that projection's parts (Jamba)

    @property
    def kind(self) -> Kind:
        return "linear"

    @property
    def state_elements(self) -> int:
        return self.value_heads_count * self.key_dim * self.value_dim

    @property
    def conv_channels(self) -> int:
        """Channels the short convolution runs over: values, and keys and queries where they are convolved too."""
        if self.conv_width == 1:
            return 0
        both = 0 if self.rule == "mamba1" else 2 * self.key_heads_count * self.key_dim
        return self.value_heads_count * self.value_dim + both

    @property
    def pair_flop(self) -> int:
        """Of one token through the recurrence: decay, outer product and read-out, and with a delta rule what the
        state already holds for the key: 7 flop an element of the state, otherwise 5."""
        return (7 if self.rule in ("gated_delta", "kda") else 5) * self.state_elements


@dataclass(frozen=True, slots=True)
class Dense:
    width: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Moe:
    experts_count: int
    active_count: int
    width: int                     # of one routed expert
    shared_width: int = 0          # of all shared experts together
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    gated: bool = True


Mixer = Attention | Mla | Linear
Ffn = Dense | Moe


@dataclass(frozen=True, slots=True)
class Layer:
    mixer: Mixer
    ffn: Ffn | None                # None where the mixer is all there is (Mamba)
    norms_count: int = 2

    @property
    def kind(self) -> Kind:
        return self.mixer.kind


@dataclass(frozen=True, slots=True)
class Names:
    """Names of modules in the checkpoint, as a quantization's list of exceptions spells them."""

    mixer: str = "self_attn"
    linear: str = "linear_attn"
    ffn: str = "mlp"
    moe: str = "mlp"
    router: str = "gate"


USUAL = Names()


@dataclass(frozen=True, slots=True)
class Geometry:
    """Of the language model. Raises nothing: who reads a config refuses what is not known."""

    model_type: str
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    mtp_layers: tuple[Layer, ...] = ()     # heads that predict further tokens, each with a layer of its own
    tied: bool = False                     # one table serves as embedding and output
    dtype: Format = BF16
    quantization: Quantization = PLAIN
    names: Names = USUAL
    left_out: tuple[str, ...] = ()         # parts of the checkpoint that are not counted, such as a vision tower
    _hash: int = field(init=False, repr=False, compare=False)    # made once: what is kept by geometry asks often

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.model_type, self.layers, self.mtp_layers, self.quantization)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def moe(self) -> Moe | None:
        """The routed experts of the first layer that has any."""
        return next((layer.ffn for layer in self.layers if isinstance(layer.ffn, Moe)), None)
