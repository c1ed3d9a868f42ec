"""What holds for all shapes and batches."""

from __future__ import annotations

from dataclasses import replace
from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from pellucid.physics.cache import kv_bytes_per_token, request_bytes
from pellucid.physics.config.read import read
from pellucid.physics.formats import BF16, FP8_BLOCK, MXFP4, NVFP4, Format, grouped
from pellucid.physics.formulae.attention import Heads, causal_pairs, decode, mla_decode, prefill, tree
from pellucid.physics.formulae.collective import Ranks, all_gather, all_reduce, all_to_all, reduce_scatter
from pellucid.physics.formulae.matmul import gemm, wave_ratio
from pellucid.physics.formulae.moe import Shape, experts, padding_ratio, ranks_touched, touched
from pellucid.physics.geometry import Geometry
from pellucid.physics.parameters import count, token_flop, weight_bytes
from pellucid.physics.quantization import PLAIN
from pellucid.physics.step.batch import Batch, Chunk, Plan
from pellucid.physics.step.model import step_work
from pellucid.physics.step.part import step_total
from pellucid.physics.tensors import tensors
from pellucid.physics.work import Work
from tests.physics import configs

MODELS = [read(getattr(configs, n)) for n in vars(configs) if n.isupper() and "model_type" in getattr(configs, n)]
DENSE = [m for m in MODELS if m.moe is None and {layer.kind for layer in m.layers} <= {"full", "sliding"}]
models, dense = st.sampled_from(MODELS), st.sampled_from(DENSE)
sizes, small = st.integers(1, 5000), st.integers(1, 64)
formats = st.sampled_from([BF16, FP8_BLOCK, MXFP4, NVFP4, grouped(4, 128, True)])
heads = st.builds(lambda kv, group, d: Heads(kv * group, kv, d, d), small, st.integers(1, 16), st.integers(8, 256))
chunks = st.builds(lambda t, before: Chunk(t, t + before), sizes, st.integers(0, 20_000))
contexts = st.lists(st.integers(1, 20_000), min_size=1, max_size=20)


def at_least(more: Work, less: Work) -> bool:
    """Allows for the order of additions in floating point."""
    pairs = [(more.flop, less.flop), (more.moved_bytes, less.moved_bytes), (more.exp_count, less.exp_count)]
    return all(a >= b or isclose(a, b, rel_tol=1e-9) for a, b in pairs)


@given(heads, sizes, sizes, st.integers(1, 6000))
def test_a_window_sees_no_more_than_a_triangle_and_that_no_more_than_a_square(
    h: Heads, tokens: int, before: int, window: int
) -> None:
    whole = prefill(h, tokens, tokens + before, causal=False)
    causal, windowed = prefill(h, tokens, tokens + before), prefill(h, tokens, tokens + before, window)
    assert whole.flop >= causal.flop >= windowed.flop > 0
    assert whole.moved_bytes == causal.moved_bytes >= windowed.moved_bytes > 0


@given(sizes, sizes, sizes)
def test_a_prompt_in_two_chunks_has_the_pairs_of_the_whole(first: int, second: int, window: int) -> None:
    whole = first + second
    for width in (None, window):
        parts = causal_pairs(first, first, width) + causal_pairs(second, whole, width)
        assert parts == causal_pairs(whole, whole, width)


@given(heads, contexts, st.integers(1, 1000))
def test_a_longer_context_is_never_less(h: Heads, seen: list[int], more: int) -> None:
    longer = [*seen[:-1], seen[-1] + more]
    assert at_least(decode(h, longer), decode(h, seen))
    assert at_least(mla_decode(h.count, longer), mla_decode(h.count, seen))
    assert at_least(decode(h, [*seen, more]), decode(h, seen))


@given(contexts, small, small)
def test_the_cached_bytes_of_latent_attention_do_not_depend_on_heads(seen: list[int], a: int, b: int) -> None:
    def cached(count: int) -> float:
        return mla_decode(count, seen).moved_bytes - len(seen) * count * (576 + 512) * 2

    assert isclose(cached(a), cached(b)) and isclose(cached(a), sum(seen) * 576 * 2)


@given(heads, sizes, st.integers(1, 32))
def test_a_chain_of_drafts_has_the_pairs_of_a_short_prefill(h: Heads, before: int, drafts: int) -> None:
    assert tree(h, before, range(1, drafts + 1)).flop == prefill(h, drafts, before + drafts).flop


@given(small, small, st.integers(0, 100_000))
def test_no_more_experts_are_touched_than_there_are_or_than_tokens_choose(
    experts_count: int, active: int, tokens: int
) -> None:
    active = min(active, experts_count)
    found = touched(experts_count, active, tokens)
    assert 0 <= found <= min(experts_count, active * tokens) * (1 + 1e-9)
    assert found <= touched(experts_count, active, tokens + 1) * (1 + 1e-9)


@given(st.integers(1, 8), st.integers(1, 8), small)
def test_a_token_goes_to_no_more_ranks_than_it_has_experts(ranks: int, local: int, active: int) -> None:
    active = min(active, ranks * local)
    found = ranks_touched(ranks * local, active, ranks)
    assert 1 - 1e-9 <= found <= min(ranks, active) * (1 + 1e-9)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=64), st.integers(1, 128))
def test_counts_and_padding(counts: list[int], tile: int) -> None:
    shape = Shape(len(counts), 1, 256, 128)
    assert padding_ratio(counts, tile) >= 1
    assert at_least(experts(shape, 0, tokens_by_expert=[*counts, 1]), experts(shape, 0, tokens_by_expert=counts))


@given(sizes, sizes, sizes, formats)
def test_products_grow_and_are_cut(m: int, n: int, k: int, fmt: Format) -> None:
    work = gemm(m, n, k, fmt)
    assert work.flop == 2 * m * n * k and work.moved_bytes > 0
    for more in (gemm(m + 1, n, k, fmt), gemm(m, n + 1, k, fmt), gemm(m, n, k + 1, fmt)):
        assert at_least(more, work)
    assert gemm(m, 2 * n, k, fmt).flop == 2 * work.flop
    assert 0 < wave_ratio(m, n, 128, 128, 132) <= 1


@given(st.floats(1, 1e12), st.integers(1, 9), st.sampled_from([1, 2, 4, 8]))
def test_what_is_sent_is_no_more_than_all_of_it_to_all(message: float, domains: int, domain: int) -> None:
    ranks = Ranks(domains * domain, domain)
    gathered, exchanged = all_gather(message, ranks), all_to_all(message, ranks)
    assert reduce_scatter(message, ranks) == gathered
    ring = all_reduce(message, Ranks(ranks.count, ranks.count))
    once = all_gather(message, Ranks(ranks.count, ranks.count))
    assert isclose(ring.link_bytes, 2 * once.link_bytes)
    assert isclose(exchanged.link_bytes + exchanged.network_bytes, (ranks.count - 1) / ranks.count * message,
                   abs_tol=1e-3)  # fmt: skip
    assert (gathered.network_bytes > 0) == (domains > 1) == (exchanged.network_bytes > 0)


@given(models, st.integers(1, 200_000), st.integers(0, 1000))
def test_a_longer_request_holds_no_less(model: Geometry, tokens: int, more: int) -> None:
    assert 0 < request_bytes(model, tokens) <= request_bytes(model, tokens + more)
    assert request_bytes(model, tokens + more) - request_bytes(model, tokens) <= more * kv_bytes_per_token(model)
    assert token_flop(model, tokens).flop <= token_flop(model, tokens + more).flop


@given(models)
def test_a_model_uses_no_more_than_it_has(model: Geometry) -> None:
    found = count(model)
    table = model.vocabulary * model.hidden
    assert 0 < found.active <= found.total
    assert all(t.active <= t.copies or t.part == "lm_head" for t in tensors(model))
    assert found.total - found.active >= (0 if model.tied else table)
    assert weight_bytes(model) <= weight_bytes(replace(model, quantization=PLAIN)) * 1.001


@given(models, chunks, contexts, st.integers(1, 4))
def test_a_larger_batch_is_never_less(model: Geometry, chunk: Chunk, seen: list[int], queries: int) -> None:
    batch = Batch((chunk,), tuple(seen), queries)
    work = step_total(step_work(model, batch))
    assert work.flop > 0 and work.moved_bytes > 0
    longer = Chunk(chunk.tokens, chunk.context_tokens + 100)
    grown = Chunk(chunk.tokens + 100, chunk.context_tokens + 100)
    chunked = any(getattr(layer.mixer, "chunked", False) for layer in model.layers)     # chunks begin anew
    for more in (Batch((chunk, chunk), tuple(seen), queries), Batch((chunk,), (*seen, 50), queries),
                 *(() if chunked else (Batch((longer,), tuple(seen), queries),
                                       Batch((grown,), tuple(seen), queries)))):  # fmt: skip
        assert at_least(step_total(step_work(model, more)), work)


@given(dense, chunks, chunks)
def test_two_chunks_are_the_sum_less_the_weights_that_are_read_once(model: Geometry, a: Chunk, b: Chunk) -> None:
    both, one, other = (step_total(step_work(model, Batch(c))) for c in ((a, b), (a,), (b,)))
    assert isclose(both.flop, one.flop + other.flop, rel_tol=1e-9)
    matrices = sum(t.rows * t.columns for t in tensors(model) if t.product and t.part != "mtp")
    shared = matrices * model.dtype.element_bytes
    norms = (2 * len(model.layers) * model.hidden + model.hidden) * 8      # their weights; four norms a layer at most
    saved = one.moved_bytes + other.moved_bytes - both.moved_bytes
    assert shared <= saved <= shared + norms


@given(models, chunks, contexts, st.sampled_from([2, 4]))
def test_ranks_together_multiply_no_less_than_one(model: Geometry, chunk: Chunk, seen: list[int], tp: int) -> None:
    batch = Batch((chunk,), tuple(seen))
    one, part = step_total(step_work(model, batch)), step_total(step_work(model, batch, Plan(tp=tp)))
    assert part.flop * tp >= one.flop * (1 - 1e-9)
    assert part.flop <= one.flop and part.moved_bytes <= one.moved_bytes
    assert part.link_bytes > 0 and part.network_bytes == 0


@given(dense, contexts)
def test_the_products_of_a_dense_model_split_exactly(model: Geometry, seen: list[int]) -> None:
    def multiplied(tp: int) -> float:
        parts = step_work(model, Batch(decodes=tuple(seen)), Plan(tp=tp))
        return sum(p.work.flop for p in parts if p.kernel_class in ("gemm", "attention"))

    assert isclose(4 * multiplied(4), multiplied(1), rel_tol=1e-12)
