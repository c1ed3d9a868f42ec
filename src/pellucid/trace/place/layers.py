"""Which layer of the model a kernel belongs to, by the structure that repeats in a step.

    embedding | norm gemm ATTENTION gemm norm gemm | norm gemm ATTENTION gemm norm gemm | norm gemm sampling
      none    |               0                    |               1                    |      none

Each layer mixes tokens once: attention, or its linear kin. From one mixer back, as long as the classes before it are
those before the next mixer, a layer begins. The last one is as long as the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pellucid.trace.timeline import Longs

OUTSIDE = -1
MIXERS = ("attention", "ssm_linear_attn")
LEAST_LAYERS = 2        # what appears once does not repeat


def layers(classes: Sequence[str], mixing: Sequence[bool]) -> Longs:
    """Layer of each kernel of one step on one stream, in order; OUTSIDE before, behind, and where nothing repeats.

    `mixing`: the kernel does the work of a mixer; helpers of attention, such as those that combine its parts, do not.
    Several in a row are one layer's.
    """
    count = len(classes)
    found = np.full(count, OUTSIDE, np.int64)
    mixers = [n for n in range(count) if mixing[n] and not (n and mixing[n - 1])]
    if len(mixers) < LEAST_LAYERS:
        return found
    before = _alike_before(classes, mixers[0], mixers[1])
    starts = [m - before for m in mixers]
    length = starts[-1] - starts[-2]
    ends = [*starts[1:], min(starts[-1] + length, count)]
    for layer, (start, end) in enumerate(zip(starts, ends, strict=True)):
        found[max(start, 0):end] = layer
    return found


def _alike_before(classes: Sequence[str], first: int, second: int) -> int:
    """How many kernels right before two mixers have the same classes, and lie behind the first."""
    most = min(first, second - first - 1)
    alike = 0
    while alike < most and classes[first - alike - 1] == classes[second - alike - 1]:
        alike += 1
    return alike
