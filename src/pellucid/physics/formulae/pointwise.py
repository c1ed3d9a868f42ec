"""What only passes data through: norms, activations, rotation, cache writes, sampling. Shapes → Work.

    norm(8192, 8192, residual=True).moved_bytes     ≈ 537 MB

Bytes are what counts here. The flop are of the order of magnitude: they run in fp32 on the vector units.
"""

from __future__ import annotations

from pellucid.physics.formats import BF16, FP32, Format
from pellucid.physics.work import Work


def norm(
    tokens: int, width: int, residual: bool = False, activations: Format = BF16, outputs: Format | None = None
) -> Work:
    """RMS norm of T rows: read and write, with a residual that is added first and written back: 4·T·H instead of 2.

    About 5·T·H flop. `outputs` in fp8 adds a scale of 4 bytes to each row.
    """
    into = outputs or activations
    reads, writes = (2, 1) if residual else (1, 0)
    moved = tokens * width * ((reads + writes) * activations.element_bytes + into.element_bytes)
    moved += width * activations.element_bytes + (4 * tokens if into.element_bits < activations.element_bits else 0)
    return Work.of("fp32", 5.0 * tokens * width, moved)


def gated_activation(tokens: float, width: int, activations: Format = BF16, outputs: Format | None = None) -> Work:
    """SwiGLU and its kin: 2·F read, F written. One exponential and about 4 flop an element."""
    moved = tokens * width * (2 * activations.element_bytes + (outputs or activations).element_bytes)
    return Work.of("fp32", 4.0 * tokens * width, moved, tokens * width)


def activation(tokens: float, width: int, activations: Format = BF16) -> Work:
    """An activation without a gate: F read, F written."""
    return Work.of("fp32", 4.0 * tokens * width, 2 * tokens * width * activations.element_bytes, tokens * width)


def rope(tokens: int, heads_count: int, rotary_dim: int, activations: Format = BF16) -> Work:
    """Rotary embedding in place, of query and KV heads together: 2·T·heads·D, and a row of sines and cosines each."""
    moved = (2 * tokens * heads_count * rotary_dim + tokens * rotary_dim) * activations.element_bytes
    return Work.of("fp32", 3.0 * tokens * heads_count * rotary_dim, moved)


def kv_write(tokens: int, elements: int, activations: Format = BF16, cache: Format = BF16) -> Work:
    """Keys and values of T tokens into their slots: read, written (`elements` a token), and 8 bytes of slot each."""
    moved = tokens * elements * (activations.element_bytes + cache.element_bytes) + 8 * tokens
    return Work.of("fp32", float(tokens * elements) if cache.element_bits < activations.element_bits else 0.0, moved)


def quantize(tokens: int, width: int, outputs: Format, activations: Format = BF16) -> Work:
    """Activations made narrower, with a scale of 4 bytes for each 128 columns."""
    moved = tokens * width * (activations.element_bytes + outputs.element_bytes) + 4 * tokens * -(-width // 128)
    return Work.of("fp32", 2.0 * tokens * width, moved)


def embedding(tokens: int, hidden: int, table: Format = BF16, activations: Format = BF16) -> Work:
    """Rows of the table looked up: T·H read, T·H written, 4 bytes of id each."""
    return Work((), tokens * hidden * (table.element_bytes + activations.element_bytes) + 4 * tokens)


def sampling(rows: int, vocabulary: int, passes_count: int = 1, logits: Format = FP32) -> Work:
    """Passes over the logits: 1 for a Gumbel maximum, 2 or 3 for a threshold by rejection."""
    elements = float(passes_count * rows * vocabulary)
    return Work.of("fp32", 2 * elements, elements * logits.element_bytes, elements)
