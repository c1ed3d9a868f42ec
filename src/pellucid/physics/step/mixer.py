"""The mixer of one layer between its projections: positions, cache, attention or its linear kin.

    mixer_parts(geometry, layer, batch, plan)      parts attention.full, rope, kv_write, …
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from pellucid.physics.cache import layer_elements
from pellucid.physics.formulae.attention import (
    Heads,
    Storage,
    causal_pairs,
    chunked_pairs,
    decode,
    mla_decode,
    prefill,
    tree,
)
from pellucid.physics.formulae.linear import Part, past_bytes, recurrence
from pellucid.physics.formulae.pointwise import kv_write, norm, rope
from pellucid.physics.geometry import Attention, Geometry, Layer, Linear, Mla
from pellucid.physics.parameters import stored_format
from pellucid.physics.step.batch import Batch, Chunk, Plan
from pellucid.physics.step.part import StepPart
from pellucid.physics.tensors import layer_tensors
from pellucid.physics.work import Work, total

ANEW = "latent attention of a prefill makes keys and values of its whole context anew"
PICKED = "sparse attention reads index_topk tokens of each context; what picks them is counted by its reads alone"


def mixer_parts(geometry: Geometry, layer: Layer, index: int, batch: Batch, plan: Plan) -> Iterator[StepPart]:
    mixer = layer.mixer
    if isinstance(mixer, Attention):
        yield from _attention(mixer, layer, batch, plan)
    elif isinstance(mixer, Mla):
        yield from _latent_up(geometry, layer, mixer, index, batch, plan)
        yield from _mla(mixer, layer, batch, plan)
    else:
        yield StepPart(f"linear.{mixer.rule}", "ssm_linear_attn", 1, _linear(mixer, batch, plan))


def _attention(a: Attention, layer: Layer, batch: Batch, plan: Plan) -> Iterator[StepPart]:
    heads = Heads(plan.share(a.heads_count, "heads"), plan.kv_heads(a.kv_heads_count), a.key_dim, a.value_dim)
    both = heads.count + heads.kv_count
    if a.qk_norm != "none":
        yield StepPart("mixer.qk_norm", "norm", 1, norm(batch.tokens, both * a.key_dim, False, plan.activations))
    if a.rotary_dim:
        yield StepPart("rope", "rope", 1, rope(batch.tokens, both, a.rotary_dim, plan.activations))
    written = kv_write(batch.tokens, heads.kv_elements, plan.activations, plan.cache.kv)
    yield StepPart("kv_write", "kv_cache", 1, written)
    storage = Storage(plan.activations, plan.cache.kv, plan.activations.compute)
    works = [_prefill(a, heads, c.tokens, c.context_tokens, storage).times(n) for c, n in _alike(batch)]
    yield StepPart(f"attention.{layer.kind}", "attention", 1, total(works) + _decode(a, heads, batch, plan, storage))


def _alike(batch: Batch) -> Iterable[tuple[Chunk, int]]:
    """Chunks with how many there are of each."""
    return Counter(batch.prefills).items()


def _prefill(a: Attention, heads: Heads, tokens: int, context: int, storage: Storage) -> Work:
    if not a.chunked or a.window_tokens is None:
        return prefill(heads, tokens, context, a.window_tokens, storage)
    begin = (context - tokens) // a.window_tokens * a.window_tokens     # what lies before the chunk is not seen
    whole = prefill(heads, tokens, context - begin, None, storage)
    pairs = chunked_pairs(tokens, context, a.window_tokens)
    return Work.of(storage.precision, heads.pair_flop * pairs, whole.moved_bytes, heads.count * pairs)


def _decode(a: Attention, heads: Heads, batch: Batch, plan: Plan, storage: Storage) -> Work:
    contexts = [seen(a, context, batch.queries_count) for context in batch.decodes]
    if batch.queries_count == 1:
        return decode(heads, contexts, plan.page_tokens, storage=storage)
    path = range(1, batch.queries_count + 1)
    return total(tree(heads, max(0, context - batch.queries_count), path, storage) for context in contexts)


def seen(a: Attention, context: int, queries: int = 1) -> int:
    """Positions that a decode reads in this layer."""
    if a.window_tokens is None:
        return context
    if a.chunked:
        return (context - 1) % a.window_tokens + 1 if context else 0
    return min(context, a.window_tokens + queries - 1)


def _latent_up(
    geometry: Geometry, layer: Layer, a: Mla, index: int, batch: Batch, plan: Plan
) -> Iterator[StepPart]:
    """The up-projection: absorbed into queries and outputs of decodes, and over the whole context of prefills."""
    weights = next(t for t in layer_tensors(geometry, layer, index) if t.product == "kv_b")
    fmt, heads = stored_format(geometry, weights), plan.share(a.heads_count, "heads")
    rows, e = heads * (a.nope_dim + a.value_dim), plan.activations.element_bytes
    expanded = sum(chunk.context_tokens for chunk in batch.prefills)
    moved = fmt.stored_bytes(rows, a.kv_rank) + expanded * (a.kv_rank + rows) * e
    moved += batch.decode_tokens * heads * (a.nope_dim + a.value_dim + 2 * a.kv_rank) * e
    flop = 2.0 * (expanded + batch.decode_tokens) * rows * a.kv_rank
    work = Work.of(plan.computes(fmt.compute), flop, moved)
    yield StepPart("mixer.kv_b", "gemm", 1, work.assuming(ANEW) if expanded else work)


def _mla(a: Mla, layer: Layer, batch: Batch, plan: Plan) -> Iterator[StepPart]:
    heads = plan.share(a.heads_count, "heads")
    latents = (a.q_rank or 0) + a.kv_rank
    yield StepPart("mixer.latent_norm", "norm", 1, norm(batch.tokens, latents, False, plan.activations))
    yield StepPart("rope", "rope", 1, rope(batch.tokens, heads + 1, a.rope_dim, plan.activations))
    yield StepPart("kv_write", "kv_cache", 1,
                   kv_write(batch.tokens, layer_elements(layer), plan.activations, plan.cache.kv))  # fmt: skip
    storage = Storage(plan.activations, plan.cache.kv, plan.activations.compute)
    plain = Heads(heads, heads, a.nope_dim + a.rope_dim, a.value_dim)
    made = Storage(plan.activations, plan.activations, plan.activations.compute)     # keys as made, not as cached
    picked = a.indexer.top_tokens if a.indexer else None
    works = [prefill(plain, c.tokens, c.context_tokens, picked, made).times(n) for c, n in _alike(batch)]
    contexts = [c if picked is None else min(c, picked) for c in batch.decodes]
    found = mla_decode(heads, contexts, a.kv_rank, a.rope_dim, batch.queries_count, storage)
    if plan.cache.latent_bytes is not None:
        special = plan.cache.latent_bytes - (a.kv_rank + a.rope_dim) * plan.cache.kv.element_bytes
        found += Work((), sum(contexts) * special)
    if a.indexer is not None:
        keys = sum(batch.decodes) * (a.indexer.dim + 4)
        pairs = batch.queries_count * sum(batch.decodes) + sum(
            causal_pairs(c.tokens, c.context_tokens) for c in batch.prefills)  # fmt: skip
        index = Work.of(plan.computes("fp8"), 2.0 * a.indexer.heads_count * a.indexer.dim * pairs, float(keys))
        yield StepPart("attention.indexer", "attention", 1, index.assuming(PICKED))
    yield StepPart("attention.mla", "attention", 1, total(works) + found)


def _linear(a: Linear, batch: Batch, plan: Plan) -> Work:
    """The recurrence, and what the short convolution keeps; its products are a thousandth of the layer's."""
    part = Part(batch.requests_count, batch.tokens, batch.prefill_tokens)
    whole = recurrence(a, part, plan.activations, plan.cache) + Work((), past_bytes(a, part, plan.cache))
    return whole.times(1 / plan.tp)
