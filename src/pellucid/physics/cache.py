"""What a request keeps on the device: KV of attention, which grows, and states of linear attention, which do not.

    kv_bytes_per_token(geometry)            == 131_072        Llama-3.1-8B: 2 · 32 layers · 8 heads · 128 · 2 B
    request_bytes(geometry, 100_000)        sliding layers hold their window, no more
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.physics.formats import BF16, FP32, Format
from pellucid.physics.geometry import Attention, Geometry, Layer, Linear, Mla


@dataclass(frozen=True, slots=True)
class CacheFormat:
    """How keys, values and states are stored. What an engine does is told by its configuration, not by the model."""

    kv: Format = BF16
    conv: Format = BF16            # states of short convolutions
    state: Format = FP32           # recurrent states
    latent_bytes: int | None = None    # of a latent vector, where its layout is special

    def token_bytes(self, elements: int, latent: bool = False) -> float:
        if latent and self.latent_bytes is not None:
            return float(self.latent_bytes)
        return self.kv.stored_bytes(1, elements) - self.kv.tensor_bits / 8


PLAIN = CacheFormat()
# FlashMLA's fp8 layout of 576 elements: 512 in fp8, 4 scales in fp32, 64 rotated ones left in bf16.
FP8_LATENT = 512 + 16 + 128


def layer_elements(layer: Layer) -> int:
    """Cached elements of one token in one layer; 0 for linear attention."""
    mixer = layer.mixer
    if isinstance(mixer, Attention):
        return mixer.kv_heads_count * (mixer.key_dim + mixer.value_dim)
    return mixer.kv_rank + mixer.rope_dim if isinstance(mixer, Mla) else 0


def layer_bytes_per_token(layer: Layer, fmt: CacheFormat = PLAIN) -> float:
    """One token, one layer. The keys that an indexer of sparse attention caches are in fp8, with a scale."""
    mixer = layer.mixer
    if isinstance(mixer, Linear):
        return 0.0
    latent = isinstance(mixer, Mla)
    indexed = mixer.indexer.dim + 4 if isinstance(mixer, Mla) and mixer.indexer else 0
    return fmt.token_bytes(layer_elements(layer), latent) + indexed


def kv_bytes_per_token(geometry: Geometry, fmt: CacheFormat = PLAIN) -> float:
    """All layers, while no window is full yet."""
    return sum(layer_bytes_per_token(layer, fmt) for layer in geometry.layers)


def held_tokens(layer: Layer, context_tokens: int) -> int:
    """Tokens of a request that a layer can still read."""
    window = layer.mixer.window_tokens if isinstance(layer.mixer, Attention) else None
    return context_tokens if window is None else min(window, context_tokens)


def state_bytes(geometry: Geometry, fmt: CacheFormat = PLAIN) -> float:
    """Of one request in all layers of linear attention, however long it is."""
    mixers = [layer.mixer for layer in geometry.layers if isinstance(layer.mixer, Linear)]
    return sum(mixer_state_bytes(m, fmt) for m in mixers)


def mixer_state_bytes(mixer: Linear, fmt: CacheFormat = PLAIN) -> float:
    past = mixer.conv_channels * (mixer.conv_width - 1)
    return mixer.state_elements * fmt.state.element_bytes + past * fmt.conv.element_bytes


def request_bytes(geometry: Geometry, context_tokens: int, fmt: CacheFormat = PLAIN) -> float:
    """All that a request of this length holds, windows and states counted. Without an engine's paging."""
    kv = sum(layer_bytes_per_token(layer, fmt) * held_tokens(layer, context_tokens) for layer in geometry.layers)
    return kv + state_bytes(geometry, fmt)
