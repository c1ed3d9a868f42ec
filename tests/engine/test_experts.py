"""A mixture whose router is known: which experts take which tokens, counted on a real engine, to the token.

In `tiny-skewed` (tools/models/tiny.py) every token takes experts 0 and 1, and two more that its half of the vocabulary
decides. The two tasks stay in one half each, so what each expert gets is known from what the clients sent and received.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pellucid.diagnose.evidence import WHOLE, gather
from pellucid.diagnose.registry import all_rules
from pellucid.diagnose.run import judge_once
from pellucid.store.read import RunReader, open_run
from pellucid.testing.traffic import Ask, Reply, send
from tools.recording import serve

LAYERS, EXPERTS, TOP_K, WORDS = 4, 16, 4, 4096
HALVES = {"chat": range(4, WORDS // 2), "code": range(WORDS // 2, WORDS)}
FLAGS = ("--max-model-len", "512", "--max-num-seqs", "8", "--max-num-batched-tokens", "64",
         "--no-enable-prefix-caching")  # fmt: skip


@dataclass(slots=True)
class Recorded:
    run: RunReader
    replies: list[Reply]

    def routed(self, task: str | None) -> int:
        """Tokens of a task that went through each layer: all but the last of each reply."""
        mine = [r for r in self.replies if r.ask.task == task]
        return sum((r.prompt_tokens or 0) + (r.output_tokens or 0) - 1 for r in mine)


def ask(pick: random.Random, task: str | None, half: range, at_s: float) -> Ask:
    """A prompt of one half, and an answer that stays in it."""
    prompt = " ".join(f"t{pick.choice(half)}" for _ in range(pick.randint(5, 150)))
    return Ask(at_s, prompt, pick.randint(4, 60), task=task, extra={"allowed_token_ids": [*half]})


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    home = tmp_path_factory.mktemp("experts")
    served = serve("tiny-skewed", FLAGS, home, home / "engine.log", env={"PELLUCID_EXPERTS_EVERY": "1"})
    try:
        pick = random.Random(4)
        asks = [ask(pick, task, half, pick.uniform(0, 4)) for task, half in HALVES.items() for _ in range(12)]
        asks += [ask(pick, None, HALVES["chat"], pick.uniform(0, 4)) for _ in range(6)]
        replies = send(served.url, served.model, asks)
        time.sleep(1.0)     # a worker is killed on the spot when the engine stops; by then it has packed
        served.end()
        yield Recorded(open_run(served.folder()), replies)
    finally:
        served.end()


def expected(task: str | None, layer: int) -> set[int]:
    """The four experts of a task's tokens."""
    own = {10 + layer, 11 + layer} if task == "code" else {2 + 2 * layer, 3 + 2 * layer}
    return {0, 1} | own


@pytest.mark.parametrize("task", [*HALVES, None])
def test_every_token_is_counted_at_the_experts_it_took(recorded: Recorded, task: str | None) -> None:
    found = recorded.run.rows(
        "SELECT layer, expert, sum(expert_tokens)::BIGINT AS n FROM experts WHERE task IS NOT DISTINCT FROM $task "
        "GROUP BY layer, expert", {"task": task},
    )  # fmt: skip
    tokens = recorded.routed(task)
    assert tokens > 100
    assert {(r["layer"], r["expert"]): r["n"] for r in found} == {
        (layer, expert): tokens if expert in expected(task, layer) else 0
        for layer in range(LAYERS) for expert in range(EXPERTS)
    }  # fmt: skip


def test_every_step_was_sampled_and_no_other(recorded: Recorded) -> None:
    seen = recorded.run.one(
        "SELECT sum(layer_tokens)::BIGINT AS tokens FROM experts WHERE layer = 0 AND expert = 0"
    )["tokens"]
    assert seen == recorded.run.one("SELECT sum(scheduled_tokens)::BIGINT AS tokens FROM steps")["tokens"]


def test_the_choices_of_a_layer_are_four_a_token(recorded: Recorded) -> None:
    sums = recorded.run.rows(
        "SELECT any_value(layer_tokens * top_k_count) AS wanted, sum(expert_tokens)::BIGINT AS counted, count(*) AS n "
        "FROM experts GROUP BY process, start_ns, first_step, layer, task"
    )
    assert sums
    assert [s for s in sums if s["wanted"] != s["counted"] or s["n"] != EXPERTS] == []


def test_one_rank_holds_all(recorded: Recorded) -> None:
    placed = recorded.run.rows("SELECT DISTINCT rank, ranks_count, top_k_count FROM experts")
    assert placed == [{"rank": None, "ranks_count": 1, "top_k_count": TOP_K}]


def test_the_probe_made_no_error(recorded: Recorded) -> None:
    assert recorded.run.one("SELECT max(probe_errors_count) AS n FROM host")["n"] == 0


@pytest.mark.parametrize("rule", ["moe.expert_skew", "moe.rank_imbalance"])
def test_a_skew_on_one_rank_is_no_finding_and_the_answer_says_why(recorded: Recorded, rule: str) -> None:
    """The skew is as large as four choices of sixteen experts allow. The traffic is too short for windows: one look."""
    found = next(r for r in all_rules() if r.id == rule)
    evidence = gather(recorded.run, found.needs, None)
    _, verdict = judge_once(found, evidence, WHOLE, {})
    assert verdict.kind == "not_applicable"
    assert "each rank has a part of every expert" in verdict.says
    assert rule == "moe.rank_imbalance" or "the hottest of 16 experts got 4.0 times the mean" in verdict.says
