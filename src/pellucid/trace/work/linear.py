"""Work of a kernel of linear attention from the batch of its step. In decodes one kernel is a layer's whole recurrence.

    linear(QWEN3_NEXT, "gdn_decode", Batch(tokens=64, prefills=0, decodes=64))   states of 64 requests, in and out

Prompts run the delta rule in chunks, as half a dozen kernels; what each of them moves is not reckoned.
"""

from __future__ import annotations

from pellucid.physics.formulae.linear import Part, convolution, recurrence
from pellucid.physics.geometry import Linear, Rule
from pellucid.physics.work import Work
from pellucid.trace.work.batches import Batch

CONVOLUTION = "causal_conv1d"       # details of the classification, as the next ones
RECURRENCES: dict[str, tuple[Rule, ...]] = {"gdn_decode": ("gated_delta", "kda"), "mamba1": ("mamba1",)}
SCANS = ("mamba1",)                 # one kernel is the whole recurrence of prompts, too
BATCH = "the batch is not known"
CHUNKS = "prompts run linear attention in chunks, as several kernels: which does what is not known"
ANOTHER = "the kernel is of another kind of linear attention than the model's, or does only a part of it"


def linear(a: Linear, detail: str, batch: Batch) -> Work | str:
    """Or why it is not known."""
    if batch.prefills is None or batch.decodes is None or batch.tokens is None:
        return BATCH
    if batch.prefills and batch.decodes:
        return "prompts and decodes of linear attention are kernels of their own: which is which is not known"
    part = Part(batch.prefills + batch.decodes, batch.tokens)
    if detail == CONVOLUTION:
        return convolution(a, part)
    if a.rule not in RECURRENCES.get(detail, ()):
        return CHUNKS if batch.prefills else ANOTHER
    if batch.prefills and detail not in SCANS:
        return CHUNKS
    return recurrence(a, part)
