"""The engine's own scheduler on virtual time, in cases small enough to be worked out by hand; a step takes 10 ns.

    blocks of 16 tokens, a budget of 64 tokens a step, prompts up to 240, unless a case says otherwise
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pellucid.collect.vllm.schedule import Request, Schedules, schedule
from pellucid.collect.vllm.schedule_lines import PlannedStep
from pellucid.collect.vllm.schedule_settings import Settings
from pellucid.collect.vllm.scheduled import Scheduled, Steps
from pellucid.core.errors import AskedWrongly, CannotAnswer
from tools.real_engine import MODELS, OLDER, PYTHON

STEP_NS = 10
PLAIN = Settings(max_running_requests=8, step_token_budget=64, max_context_tokens=256, kv_blocks_count=100,
                 kv_block_tokens=16)  # fmt: skip


@pytest.fixture(scope="module", params=[PYTHON, OLDER], ids=["0.32", "0.28"])
def engine(request: pytest.FixtureRequest) -> Iterator[Schedules]:
    """One process, asked again and again."""
    with Schedules(str(request.param)) as schedules:
        yield schedules


def ask(engine: Schedules, settings: Settings, *requests: Request) -> tuple[Scheduled, list[PlannedStep]]:
    seen: list[PlannedStep] = []

    def step_ns(step: PlannedStep) -> int:
        seen.append(step)
        return STEP_NS

    return engine.ask(settings, requests, step_ns), seen


def prefills(seen: list[PlannedStep]) -> list[list[tuple[int, int, bool]]]:
    return [[(p.tokens, p.context_tokens, p.samples) for p in step.prefills] for step in seen]


def test_with_a_cap_of_one_the_second_waits_for_the_first(engine: Schedules) -> None:
    found, seen = ask(engine, replace(PLAIN, max_running_requests=1), Request(0, 20, 3), Request(0, 30, 2))
    assert prefills(seen) == [[(20, 20, True)], [], [], [(30, 30, True)], []]
    assert [(s.decode_count, s.decode_context_tokens, s.running_count, s.waiting_count) for s in seen] == [
        (0, 0, 1, 1), (1, 21, 1, 1), (1, 22, 1, 1), (0, 0, 1, 0), (1, 31, 1, 0),
    ]  # fmt: skip
    assert [(s.scheduled_ns, s.first_token_ns, s.last_token_ns, s.token_steps) for s in found.served] == [
        (0, 10, 30, ((0, 2),)), (30, 40, 50, ((3, 4),)),
    ]  # fmt: skip
    assert [s.kv_used_blocks_count for s in seen] == [2, 2, 2, 2, 2]


def test_a_prompt_above_the_budget_is_computed_in_pieces_beside_decodes(engine: Schedules) -> None:
    found, seen = ask(engine, PLAIN, Request(0, 10, 4), Request(1, 150, 1))
    # Each decode takes one token of the 64.
    assert prefills(seen) == [[(10, 10, True)], [(63, 63, False)], [(63, 126, False)], [(24, 150, True)]]
    assert [s.decode_count for s in seen] == [0, 1, 1, 1]
    assert [(s.queued_ns, s.scheduled_ns, s.first_token_ns, s.token_steps) for s in found.served] == [
        (0, 0, 10, ((0, 3),)), (10, 10, 40, ((3, 3),)),
    ]  # fmt: skip


def test_a_long_prompt_is_held_to_its_threshold_while_others_are_there(engine: Schedules) -> None:
    _, seen = ask(engine, replace(PLAIN, long_prefill_threshold=16), Request(0, 40, 1), Request(0, 40, 1))
    assert [sum(p.tokens for p in step.prefills) for step in seen][:2] == [32, 32]
    assert [len(step.prefills) for step in seen] == [2, 2, 2]


def test_idle_time_is_jumped_over(engine: Schedules) -> None:
    found, seen = ask(engine, PLAIN, Request(5, 10, 1), Request(15, 10, 1), Request(1000, 10, 1))
    assert [s.start_ns for s in seen] == [5, 15, 1000]
    assert [s.queued_ns for s in found.served] == [5, 15, 1000]


def test_a_cache_too_small_preempts_the_later_request_and_computes_it_again(engine: Schedules) -> None:
    """Of 9 usable blocks each prompt takes 4 and the fifth is wanted by both at once: the first gets it."""
    settings = replace(PLAIN, kv_blocks_count=10, step_token_budget=128, prefix_caching=False)
    found, seen = ask(engine, settings, Request(0, 64, 20), Request(0, 64, 20))
    assert [(s.step, s.preempted_count) for s in seen if s.preempted_count] == [(1, 1)]
    assert [s.preemptions_count for s in found.served] == [0, 1]
    # The first alone up to its end in step 19; then the second's prompt and its first token are computed again.
    assert prefills(seen)[20] == [(65, 65, True)]
    assert [s.token_steps for s in found.served] == [((0, 19),), ((0, 0), (20, 38))]
    assert max(s.kv_used_blocks_count for s in seen) <= 9


def test_a_preempted_request_finds_what_is_left_in_the_cache(engine: Schedules) -> None:
    settings = replace(PLAIN, kv_blocks_count=10, step_token_budget=128, prefix_caching=True)
    found, seen = ask(engine, settings, Request(0, 64, 20), Request(0, 64, 20))
    assert [s.preemptions_count for s in found.served] == [0, 1]
    # Of its four blocks the first request has taken one: the last, since ends are given away before beginnings.
    assert [(p.tokens, p.context_tokens) for step in seen[1:] for p in step.prefills] == [(65 - 48, 65)]
    assert [s.cached_tokens for s in found.served] == [0, 0]


def test_prompts_share_whole_blocks_as_their_numbers_say(engine: Schedules) -> None:
    block = 32
    found, _ = ask(
        engine, PLAIN,
        Request(0, 100, 1, [0, 1, 2], block), Request(100, 100, 1, [0, 1, 9], block), Request(200, 100, 1, [8], block),
        Request(300, 96, 1, [0, 1, 2], block), Request(400, 100, 1), Request(500, 40, 1, [0, 1], block),
    )  # fmt: skip
    # All of the fourth is cached, and its last token has to be computed: the engine gives up the whole block.
    assert [s.cached_tokens for s in found.served] == [0, 64, 0, 80, 0, 32]


def test_without_prefix_caching_nothing_is_found(engine: Schedules) -> None:
    requests = [Request(n * 100, 100, 1, [0, 1, 2], 32) for n in range(2)]
    assert [s.cached_tokens for s in ask(engine, replace(PLAIN, prefix_caching=False), *requests)[0].served] == [0, 0]
    assert [s.cached_tokens for s in ask(engine, PLAIN, *requests)[0].served] == [0, 96]


def test_what_can_never_be_served_is_refused_and_the_others_are_served(engine: Schedules) -> None:
    settings = replace(PLAIN, kv_blocks_count=10)
    found, _ = ask(engine, settings, Request(0, 200, 60), Request(0, 128, 18), Request(0, 128, 17), Request(0, 20, 1))
    assert [s.request for s in found.served] == [2, 3]
    assert [(r.request, r.reason) for r in found.refused] == [
        (0, "260 tokens with the answer, and max_model_len is 256"), 
        (1, "it needs KV blocks for 145 tokens, and those that can be used hold 144"),
    ]  # fmt: skip


def test_what_the_engine_would_keep_waiting_for_ever_is_refused(engine: Schedules) -> None:
    settings = replace(PLAIN, step_token_budget=256, chunked_prefill=False, scheduled_token_budget=64)
    found, _ = ask(engine, settings, Request(0, 40, 2), Request(5, 100, 1), Request(900, 10, 1))
    assert [(s.request, s.scheduled_ns) for s in found.served] == [(0, 0), (2, 900)]
    assert [(r.request, "wait for ever" in r.reason) for r in found.refused] == [(1, True)]


def test_the_smaller_priority_is_first(engine: Schedules) -> None:
    requests = [Request(0, 20, 2), Request(1, 20, 2, priority=2), Request(2, 20, 2, priority=1)]
    for policy, order in (("fcfs", [0, 20, 40]), ("priority", [0, 40, 20])):
        found, _ = ask(engine, replace(PLAIN, max_running_requests=1, scheduling_policy=policy), *requests)
        assert [s.scheduled_ns for s in found.served] == order


def test_settings_the_engine_does_not_take_are_refused(engine: Schedules) -> None:
    with pytest.raises(AskedWrongly, match=r"max_num_batched_tokens.*max_num_seqs"):
        ask(engine, replace(PLAIN, max_running_requests=65))
    with pytest.raises(AskedWrongly, match="no setting of a schedule: max_seqs"):
        ask(engine, replace(PLAIN, others={"max_seqs": 1}))
    with pytest.raises(CannotAnswer, match=r"0\.\S* has no max_num_partial_prefills"):
        ask(engine, replace(PLAIN, others={"max_num_partial_prefills": 1}))


def test_a_version_says_what_it_lacks(engine: Schedules) -> None:
    capped = replace(PLAIN, sequence_cap=1)
    try:
        found, seen = ask(engine, capped, Request(0, 20, 1), Request(0, 20, 1))
    except CannotAnswer as error:
        assert re.search(r"0\.28\S* has no max_num_active_seqs", str(error))
    else:
        assert (found.engine_version[:4], [s.running_count for s in seen]) == ("0.32", [1, 1])


def test_a_models_folder_is_enough(engine: Schedules) -> None:
    found, _ = ask(engine, replace(PLAIN, model=str(MODELS / "tiny-dense")), Request(0, 20, 1))
    assert (len(found.served), found.notes) == (1, ())


def test_layers_with_a_window_have_blocks_of_their_own(engine: Schedules) -> None:
    """18 layers, 3 of them with all of the context: 6 groups of 3. So a block for each, and here no more than 29."""
    settings = replace(PLAIN, model=str(MODELS / "gemma-3-270m"), kv_blocks_count=30)
    found, seen = ask(engine, settings, Request(0, 14, 4), Request(100, 60, 40), Request(200, 100, 1))
    assert [s.kv_used_blocks_count for s in seen][:4] == [6, 6, 6, 12]
    assert (found.notes, [s.request for s in found.served]) == ((), [0])
    assert [(r.request, r.reason.split(":")[0]) for r in found.refused] == [
        (1, "it needs more KV blocks than there are"),
        (2, "the engine plans nothing for it, and never would"),
    ]


def test_layers_of_a_kind_not_known_here_are_told(engine: Schedules, tmp_path: Path) -> None:
    config = json.loads((MODELS / "gemma-3-270m" / "config.json").read_text())
    del config["layer_types"]
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["MistralForCausalLM"],
                                                      "model_type": "mistral"}))  # fmt: skip
    found, _ = ask(engine, replace(PLAIN, model=str(tmp_path)), Request(0, 20, 1))
    assert "as if all layers had full attention" in found.notes[0]


@pytest.fixture(scope="module")
def crowd(engine: Schedules) -> tuple[Scheduled, Scheduled]:
    """Two times the same, in two processes: more than the cache holds, prompts that share, bursts."""
    pick = np.random.default_rng(7)
    arrivals = np.sort(pick.integers(0, 4000, 60))
    requests = [
        Request(int(at), int(pick.integers(1, 180)), int(pick.integers(1, 60)), pick.integers(0, 3, 4).tolist(), 16)
        for at in arrivals
    ]
    settings = replace(PLAIN, kv_blocks_count=30, max_running_requests=6)
    again = schedule(engine.python, settings, requests, lambda _: STEP_NS)
    return ask(engine, settings, *requests)[0], again


def test_the_same_twice_gives_the_same(crowd: tuple[Scheduled, Scheduled]) -> None:
    first, second = crowd
    assert (first.served, first.refused) == (second.served, second.refused)
    assert [getattr(first.steps, n).tolist() for n in Steps.__slots__] == [
        getattr(second.steps, n).tolist() for n in Steps.__slots__]  # fmt: skip


LAWS: dict[str, Callable[[Scheduled], bool]] = {
    "preemptions are there": lambda f: sum(s.preemptions_count for s in f.served) > 0,
    "those of steps are those of requests":
        lambda f: int(f.steps.preempted_count.sum()) == sum(s.preemptions_count for s in f.served),
    "a token is there for each decode and each prefill that gives one":
        lambda f: int(f.steps.decode_count.sum()) <= sum(b - a + 1 for s in f.served for a, b in s.token_steps),
    "no step is above the budget": lambda f: int((f.steps.prefill_tokens + f.steps.decode_count).max()) <= 64,
    "never more blocks than there are": lambda f: int(f.steps.kv_used_blocks_count.max()) <= 29,
    "steps do not overlap": lambda f: bool((f.steps.start_ns[1:] >= f.steps.end_ns[:-1]).all()),
    "nothing before it arrives": lambda f: all(s.arrival_ns <= s.queued_ns <= s.scheduled_ns for s in f.served),
}  # fmt: skip


@pytest.mark.parametrize("law", LAWS)
def test_in_a_crowd(crowd: tuple[Scheduled, Scheduled], law: str) -> None:
    first, _ = crowd
    assert (len(first.served), first.refused) == (60, ())
    assert LAWS[law](first)
