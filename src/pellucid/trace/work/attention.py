"""Work of an attention kernel from the batch of its step. Lengths that are not known exactly are taken as the longest.

    batch of 64 that decode, longest context 1005   →  decode of 64 × 1005 positions: at least what was read
"""

from __future__ import annotations

from pellucid.physics.formulae import attention as formulae
from pellucid.physics.formulae.attention import Heads, Storage
from pellucid.physics.work import Work, total
from pellucid.trace.work.batches import Batch

LONGEST = "the context of each request is taken as the longest of the step, {} tokens"
CAUSAL = "attention is taken as causal"
LENGTHS = "lengths of the requests are not known"


def attention(heads: Heads, batch: Batch, storage: Storage) -> Work | str:
    """The work of one layer, or why it is not known."""
    if batch.contexts:
        return total(
            formulae.prefill(heads, query, context, storage=storage)
            for query, context in zip(batch.queries, batch.contexts, strict=True)
        )
    if batch.prefills == 0 and batch.decodes and batch.longest_context:
        work = formulae.decode(heads, [batch.longest_context] * batch.decodes, storage=storage)
        return work.assuming(LONGEST.format(f"{batch.longest_context:,}"))
    if batch.decodes == 0 and batch.prefills and batch.longest_query and batch.tokens:
        alike = batch.prefills * batch.longest_query == batch.tokens
        if alike and batch.longest_context in (None, batch.longest_query):
            one = formulae.prefill(heads, batch.longest_query, batch.longest_query, storage=storage)
            return one.times(batch.prefills).assuming(CAUSAL)
    return LENGTHS
