from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.core.errors import AskedWrongly
from pellucid.workload.file import Workload
from pellucid.workload.rows import Request, Rows
from pellucid.workload.scaled import scaled
from pellucid.workload.statistics import statistics


def of(*requests: Request) -> Workload:
    rows = Rows()
    for request in requests:
        rows.add(request)
    return rows.workload("a test", "literal")


def column(workload: Workload, name: str) -> list[int | None]:
    values: list[int | None] = workload.requests.column(name).to_pylist()
    return values


def test_a_block_shrinks_with_its_prompt() -> None:
    found = scaled(of(Request(1024, 100, 0, [1, 2], 512, max_tokens=200)), 0.1)
    assert [column(found, n) for n in ("block_tokens", "prompt_tokens", "output_tokens", "max_tokens")] == [
        [51], [102], [10], [20],
    ]  # fmt: skip


def test_nothing_shrinks_below_a_token_and_zero_and_null_stay() -> None:
    found = scaled(of(Request(3, 0, 0), Request(3, None, 0), Request(3, 3, 0)), 0.01)
    assert (column(found, "prompt_tokens"), column(found, "output_tokens")) == ([1, 1, 1], [0, None, 1])


def test_twice_the_speed_is_half_the_time_between_and_to_think() -> None:
    found = scaled(of(Request(3, 3, 0), Request(3, 3, 3_000, think_ns=101)), speed=2)
    assert (column(found, "arrival_ns"), column(found, "think_ns")) == ([0, 1_500], [None, 50])


def test_a_factor_of_one_changes_nothing() -> None:
    workload = of(Request(1024, 100, 0, [1, 2], 512), Request(3, None, 7))
    assert scaled(workload).requests.equals(workload.requests)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("inf"), float("nan")])
def test_what_is_no_factor_is_refused(factor: float) -> None:
    with pytest.raises(AskedWrongly, match="--scale-tokens"):
        scaled(of(Request(3, 3, 0)), factor)
    with pytest.raises(AskedWrongly, match="--speed"):
        scaled(of(Request(3, 3, 0)), speed=factor)


PATHS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=2, max_size=8)


@settings(deadline=None)
@given(PATHS, st.sampled_from([0.05, 0.1, 0.37, 1.7]))
def test_what_prompts_share_stays_the_same_share_of_them(paths: list[list[int]], factor: float) -> None:
    """Of prompts of whole blocks exactly: every length is multiplied by the same number."""
    requests = []
    for path in paths:
        numbers = [sum((step + 1) * 4**i for i, step in enumerate(path[: n + 1])) for n in range(len(path))]
        requests.append(Request(512 * len(path), 1, 0, numbers, 512))
    before, after = (statistics(w).sharing for w in (of(*requests), scaled(of(*requests), factor)))
    assert before is not None and after is not None
    assert before.repeated_tokens * after.prompt_tokens == after.repeated_tokens * before.prompt_tokens
