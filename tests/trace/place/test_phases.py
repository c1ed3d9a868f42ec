"""Phases of steps by the shapes of their operators, else by what their kernels are made for."""

from __future__ import annotations

import pytest

from pellucid.trace.place.phases import Phase, Signs, agree, phases


def names(*seen: Signs) -> list[str | None]:
    return [phase.name for phase in phases(seen)]


def batch(*pairs: tuple[int, int]) -> list[Phase]:
    """Tokens and requests of steps in a row."""
    return phases([Signs(tokens, requests) for tokens, requests in pairs])


def test_prompts_then_both_then_answers() -> None:
    found = batch((8000, 8), (16384, 25), (64, 64))
    assert [(p.name, p.prefills, p.decodes) for p in found] == [
        ("prefill", 8, 0), ("mixed", 17, 8), ("decode", 0, 64)]  # fmt: skip


def test_prompts_whose_requests_are_through_at_once_never_mix() -> None:
    assert [p.name for p in batch((16384, 3), (15616, 2), (16384, 3))] == ["prefill", "prefill", "mixed"]


def test_the_last_prompt_of_a_full_step_may_be_there_in_part() -> None:
    found = batch((16384, 3), (1000, 3))
    assert (found[1].name, found[1].prefills, found[1].decodes) == ("mixed", 1, 2)


def test_a_batch_of_sequences_decodes_when_each_computes_one_token() -> None:
    assert names(Signs(tokens=16, requests=2, sequence_tokens=8), Signs(tokens=2, requests=2, sequence_tokens=1)) == [
        "prefill", "decode"]  # fmt: skip


@pytest.mark.parametrize(("seen", "wanted"), [
    (Signs(hints={"decode": 5}), "decode"),
    (Signs(hints={"prefill": 5}), "prefill"),
    (Signs(hints={"prefill": 5, "decode": 1}), "mixed"),
    (Signs(hints={"prefill": 5}, graph="full"), "prefill"),
    (Signs(graph="full"), "decode"),
    (Signs(graph="piecewise"), None),
    (Signs(hints={"decode": 0}), None),
    (Signs(), None),
    (Signs(tokens=5, requests=9), None),      # more rows were sampled from than there are tokens
    (Signs(tokens=5), None),
])  # fmt: skip
def test_without_shapes_the_kernels_tell(seen: Signs, wanted: str | None) -> None:
    assert phases([seen])[0].name == wanted


def test_agreement_is_a_share_of_time() -> None:
    assert agree(["decode", "prefill", None], ["decode", "mixed", None], [3, 1, 9]) == 0.75
