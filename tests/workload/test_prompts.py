"""Prompts of nobody: as long as the source's, alike where they were, the same for the same seed."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.core.errors import AskedWrongly
from pellucid.workload.file import Workload
from pellucid.workload.prompts import Tokens, Vocabulary, _mixed, prompt, prompts
from pellucid.workload.read_any import read_any
from pellucid.workload.rows import Request, Rows
from pellucid.workload.servegen import Draw
from pellucid.workload.statistics import repeating_blocks, statistics
from tests.conftest import shared_data
from tests.workload.trace_files import KEY

WORDS = Vocabulary(50_000)


def of(*requests: Request) -> Workload:
    rows = Rows()
    for request in requests:
        rows.add(request)
    return rows.workload("by hand", "test")


def alike(one: Tokens, other: Tokens) -> int:
    """Leading tokens that are the same."""
    n = min(len(one), len(other))
    differ = np.flatnonzero(one[:n] != other[:n])
    return int(differ[0]) if len(differ) else n


def test_the_mixing_function_is_splitmix64() -> None:
    """First outputs for seed 1234567, as Rosetta Code gives them for this generator."""
    gamma, seed = 0x9E3779B97F4A7C15, 1234567
    states = np.array([(seed + i * gamma) % 2**64 for i in range(3)], dtype=np.uint64)
    assert _mixed(states).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_prompts_are_alike_as_far_as_their_blocks_are() -> None:
    a, b, c, d, e = prompts(of(
        Request(40, blocks=[1, 2, 3], block_tokens=16), Request(40, blocks=[1, 2, 4], block_tokens=16),
        Request(20, blocks=[1, 2], block_tokens=16), Request(50, blocks=[1], block_tokens=16), Request(50),
    ), WORDS)  # fmt: skip
    assert [len(x) for x in (a, b, c, d, e)] == [40, 40, 20, 50, 50]
    assert (alike(a, b), alike(a, c), alike(a, d), alike(b, d), alike(d, e)) == (32, 20, 16, 16, 0)


def test_a_prompt_of_one_length_and_blocks_in_another_row_differs_behind_them() -> None:
    a, b = prompts(of(*[Request(40, blocks=[1], block_tokens=16)] * 2), WORDS)
    assert alike(a, b) == 16


def test_the_seed_decides() -> None:
    workload = of(Request(40, blocks=[1, -2], block_tokens=16), Request(9))
    one, same, other = (np.concatenate(list(prompts(workload, WORDS, seed))) for seed in (5, 5, 6))
    assert (one == same).all()
    assert (one != other).mean() > 0.99


def test_a_prompt_can_be_made_alone() -> None:
    made = list(prompts(of(Request(7), Request(40, blocks=[1, 2], block_tokens=16)), WORDS, 3))
    assert (prompt(40, [1, 2], 16, (WORDS, 3, 1)) == made[1]).all()


def test_the_same_seed_gives_these_prompts_for_ever() -> None:
    """A replay is compared with one of another day."""
    assert prompt(6, [7], 4, (WORDS, 0, 0)).tolist() == [39773, 22851, 5772, 29038, 32282, 10671]


def test_tokens_are_spread_over_the_vocabulary() -> None:
    (found,) = prompts(of(Request(100_000)), Vocabulary(110, reserved_count=10))
    counts = np.bincount(found, minlength=110)
    assert counts[:10].sum() == 0
    assert len(counts) == 110
    expected = 1000
    chi_square = float(((counts[10:] - expected) ** 2 / expected).sum())
    assert chi_square < 149     # 99.9 % of 99 degrees of freedom


@pytest.mark.parametrize(("count", "reserved"), [(0, 0), (1, 0), (5, 4), (5, 9), (5, -1)])
def test_a_vocabulary_without_a_choice_is_refused(count: int, reserved: int) -> None:
    with pytest.raises(AskedWrongly, match="leaves nothing to draw from"):
        Vocabulary(count, reserved)


TREES = st.lists(st.tuples(st.lists(st.integers(0, 2), max_size=4), st.integers(1, 40)), min_size=2, max_size=6)


@settings(max_examples=60, deadline=None)
@given(TREES, st.integers(0, 2**62))
def test_any_tree_of_blocks_is_the_tree_of_the_prompts(paths: list[tuple[list[int], int]], seed: int) -> None:
    """Numbers stand for a block and all before it: here the path itself, written as one number."""
    requests = []
    for path, length in paths:
        numbers = [sum((step + 1) * 4**i for i, step in enumerate(path[: n + 1])) for n in range(len(path))]
        requests.append(Request(max(length, 8 * len(path) - 7), blocks=numbers, block_tokens=8))
    made = list(prompts(of(*requests), Vocabulary(2**40), seed))      # so many that none comes twice by chance
    for i, one in enumerate(requests):
        for j, other in enumerate(requests[:i]):
            assert one.blocks is not None and other.blocks is not None
            shared = 8 * repeating_blocks(one.blocks, set(other.blocks))
            wanted = min(shared, one.prompt_tokens, other.prompt_tokens)
            assert alike(made[i], made[j]) == wanted


@pytest.mark.slow
def test_prompts_of_a_public_trace_share_what_its_blocks_share() -> None:
    """Counted on the tokens themselves, by a set of their 512-token prefixes, for its first 300 requests."""
    path = shared_data("workload_traces/mooncake_fast25_conversation_trace.jsonl.gz")
    whole = read_any([path], KEY, Draw())
    workload = Workload(whole.about, whole.requests.slice(0, 300))
    seen: set[bytes] = set()
    repeated = 0
    for tokens in prompts(workload, Vocabulary(151_643)):
        ends = [*range(512, len(tokens), 512), len(tokens)]
        beginnings = [blake2b(tokens[:end].tobytes()).digest() for end in ends]
        known = next((i for i, b in enumerate(beginnings) if b not in seen), len(beginnings))
        repeated += ends[known - 1] if known else 0
        seen.update(beginnings)
    found = statistics(workload).sharing
    assert found and repeated == found.repeated_tokens > 0
