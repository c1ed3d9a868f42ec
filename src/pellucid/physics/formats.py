"""How the numbers of a tensor lie in memory, and what its matrix multiplications run in.

    NVFP4.stored_bytes(rows=1, columns=32)  == 32 / 2 + 2 + 4       two blocks of 16 and a scale for the tensor
    FP8_BLOCK.stored_bytes(256, 300)        == 256 * 300 + 2 * 3 * 4

Scales count: a model of 2.8 T parameters is 1.575 TB in NVFP4, not 1.4 TB.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal, get_args

Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "fp4"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@dataclass(frozen=True, slots=True)
class Format:
    """A number format with the scales that belong to it. A block side of 0 is as long as the tensor's."""

    name: str
    element_bits: int
    compute: Precision             # what engines multiply in where the device has it; activations are made to fit
    scale_bits: int = 0            # one scale for each block; 0 where there is none
    zero_bits: int = 0             # one zero point for each block
    block_rows: int = 0
    block_columns: int = 0
    tensor_bits: int = 0           # scales of the tensor as a whole

    @property
    def element_bytes(self) -> float:
        return self.element_bits / 8

    def stored_bytes(self, rows: int, columns: int) -> float:
        """Bytes of a matrix (rows × columns), scales in it."""
        bits: float = rows * columns * self.element_bits + self.tensor_bits
        if self.scale_bits or self.zero_bits:
            blocks = ceil(rows / (self.block_rows or rows)) * ceil(columns / (self.block_columns or columns))
            bits += blocks * (self.scale_bits + self.zero_bits)
        return bits / 8


FP32 = Format("fp32", 32, "tf32")
BF16 = Format("bf16", 16, "bf16")
FP16 = Format("fp16", 16, "fp16")
# A scale for the tensor, for a row, and for a block of 128 × 128 as DeepSeek-V3 stores it (its technical report, §3.3).
FP8 = Format("fp8", 8, "fp8", tensor_bits=32)
FP8_CHANNEL = Format("fp8_channel", 8, "fp8", scale_bits=32, block_rows=1)
FP8_BLOCK = Format("fp8_block", 8, "fp8", scale_bits=32, block_rows=128, block_columns=128)
INT8_CHANNEL = Format("int8_channel", 8, "int8", scale_bits=32, block_rows=1)
# OCP Microscaling Formats 1.0: blocks of 32 with a scale of 8 bits. The activations stay 16 bits wide in gpt-oss.
MXFP4 = Format("mxfp4", 4, "bf16", scale_bits=8, block_rows=1, block_columns=32)
MXFP8 = Format("mxfp8", 8, "fp8", scale_bits=8, block_rows=1, block_columns=32)
# NVIDIA: blocks of 16 with a scale in FP8, and one in FP32 for the tensor.
NVFP4 = Format("nvfp4", 4, "fp4", scale_bits=8, block_rows=1, block_columns=16, tensor_bits=32)
NVFP4_WEIGHTS = Format("nvfp4_weights", 4, "bf16", scale_bits=8, block_rows=1, block_columns=16, tensor_bits=32)

PLAIN = {
    "float32": FP32, "bfloat16": BF16, "float16": FP16,
    "fp32": FP32, "bf16": BF16, "fp16": FP16,
}  # fmt: skip


def fp8_blocks(rows: int, columns: int) -> Format:
    return Format("fp8_block", 8, "fp8", scale_bits=32, block_rows=rows, block_columns=columns)


def grouped(bits: int, group: int, zero_points: bool) -> Format:
    """Integers that share a scale of 16 bits by `group` columns (AWQ, GPTQ); -1 is a whole row. Computed in bf16."""
    zeros = bits if zero_points else 0
    return Format(f"int{bits}_g{group}", bits, "bf16", 16, zeros, block_rows=1, block_columns=max(group, 0))
