"""A row of host events → an operator with its inputs as numbers, where they were recorded.

    Operator("aten::mm", dims=((8000, 2048), (2048, 5120)), types=("c10::BFloat16", "c10::BFloat16"), scalars=("", ""))
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pellucid.physics.formats import BF16, FP8, FP16, FP32, INT8_CHANNEL, Format
from pellucid.trace.place.lookups import Dims, dims_of, types_of
from pellucid.trace.timeline import Timeline

# Element types, as profilers spell them.
FORMATS: dict[str, Format] = {
    "c10::BFloat16": BF16, "c10::Half": FP16, "float": FP32, "signed char": INT8_CHANNEL,
    "c10::Float8_e4m3fn": FP8, "c10::Float8_e5m2": FP8, "c10::Float8_e4m3fnuz": FP8,
}  # fmt: skip
SIZES_BYTES = {
    "double": 8, "long int": 8, "long": 8, "float": 4, "int": 4, "c10::BFloat16": 2, "c10::Half": 2, "short int": 2,
    "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1, "c10::Float8_e4m3fnuz": 1, "unsigned char": 1, "signed char": 1,
    "bool": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operator:
    name: str
    dims: Dims                      # of each input; () for one that is no tensor
    types: tuple[str, ...]          # of each input
    scalars: tuple[str, ...]        # inputs that are no tensors, "" for those that are

    def matrices(self) -> tuple[tuple[int, int, int], Format, Format] | None:
        """(m, n, k) of a product, and the formats of activations and weights; None where it is none that we know."""
        at = [n for n, d in enumerate(self.dims) if len(d) >= 2]
        if len(at) < 2 or max(at[:2]) >= len(self.types):
            return None
        first, second = self.dims[at[0]], self.dims[at[1]]
        formats = FORMATS.get(self.types[at[0]]), FORMATS.get(self.types[at[1]])
        if formats[0] is None or formats[1] is None:
            return None
        m, k, rows, columns = prod(first[:-1]), first[-1], second[-2], second[-1]
        if len(second) > 2:          # a batch of products: each with its own matrix
            return None
        n = columns if rows == k else rows if columns == k else 0
        return ((m, n, k), formats[0], formats[1]) if n and m and k else None

    def tensors_bytes(self) -> int | None:
        """Of all inputs; None where the size of an element is not known."""
        total = 0
        for n, d in enumerate(self.dims):
            if d:
                size = SIZES_BYTES.get(self.types[n]) if n < len(self.types) else None
                if size is None:
                    return None
                total += prod(d) * size
        return total

    def scalar(self, at: int) -> int | None:
        text = self.scalars[at] if at < len(self.scalars) else ""
        return int(text) if text.isdigit() else None


def operator(timeline: Timeline, row: int) -> Operator | None:
    """None for no operator, and for one without shapes."""
    host = timeline.host
    if row < 0 or host.shapes[row] < 0:
        return None
    types = types_of(timeline.texts[host.types[row]]) if host.types[row] >= 0 else ()
    scalars = types_of(timeline.texts[host.scalars[row]]) if host.scalars[row] >= 0 else ()
    return Operator(timeline.names[host.name[row]], dims_of(timeline.texts[host.shapes[row]]), types, scalars)
