"""Work of an attention kernel from the batch of its step. Lengths that are not known exactly are taken as the longest.

    batch of 64 that decode, longest context 1005   →  decode of 64 × 1005 positions: at least what was read
"""

from __future__ import annotations

from pellucid.physics.formulae import attention as formulae
from pellucid.physics.formulae.attention import Heads, Storage
from pellucid.physics.geometry import Mla
from pellucid.physics.work import Work, total
from pellucid.trace.work.batches import Batch

PARTLY_CACHED = "latent attention of a prompt whose beginning is cached is several kernels: which does what is unknown"
MIXED = "prompts and decodes of latent attention are kernels of their own: which is which is not known"
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


def latent_attention(a: Mla, batch: Batch, storage: Storage) -> Work | str:
    """As `attention`. Decodes read what is cached, the up-projections absorbed; prompts make keys and values anew."""
    if batch.prefills == 0 and batch.decodes:
        return _latent_decode(a, batch, storage)
    if batch.decodes:
        return MIXED
    if batch.contexts and batch.contexts != batch.queries:
        return PARTLY_CACHED
    plain = Heads(a.heads_count, a.heads_count, a.nope_dim + a.rope_dim, a.value_dim)
    return attention(plain, batch, Storage(storage.activations, storage.activations, storage.precision))


def _latent_decode(a: Mla, batch: Batch, storage: Storage) -> Work | str:
    told, queries = batch.contexts, set(batch.queries) or {1}
    contexts = told or ((batch.longest_context,) * (batch.decodes or 0) if batch.longest_context else ())
    if not contexts or len(queries) > 1:
        return LENGTHS
    most = a.indexer.top_tokens if a.indexer else max(contexts)
    work = formulae.mla_decode(a.heads_count, [min(c, most) for c in contexts], a.kv_rank, a.rope_dim, queries.pop(),
                               storage)  # fmt: skip
    return work if told else work.assuming(LONGEST.format(f"{batch.longest_context:,}"))
