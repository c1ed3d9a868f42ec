"""A mixture whose router is known: which experts take which tokens, counted on a real engine, to the token.

In `tiny-skewed` (tools/models/tiny.py) a token's quarter of the vocabulary decides which four experts it takes. A task
stays in one quarter, so what each expert gets is known from what the clients sent and received.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from pellucid.diagnose.evidence import WHOLE, gather
from pellucid.diagnose.registry import all_rules
from pellucid.diagnose.run import judge_once
from pellucid.store.read import RunReader, open_run
from pellucid.testing.traffic import Reply, send
from tools.recording import serve
from tools.traffic.experts import quarter_ask

LAYERS, EXPERTS, TOP_K = 4, 16, 4
QUARTERS = {"chat": 0, "code": 2, None: 1}      # by task; the last has no label
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




@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    home = tmp_path_factory.mktemp("experts")
    served = serve("tiny-skewed", FLAGS, home, home / "engine.log", env={"PELLUCID_EXPERTS_EVERY": "1"})
    try:
        pick = random.Random(4)
        asks = [replace(quarter_ask(pick, task, quarter), at_s=pick.uniform(0, 4))
                for task, quarter in QUARTERS.items() for _ in range(10)]  # fmt: skip
        replies = send(served.url, served.model, asks)
        # A window younger than a second stays open when the engine falls idle: one more request closes it.
        send(served.url, served.model, [replace(quarter_ask(pick, "end", 3), at_s=1.5)])
        time.sleep(1.0)     # a worker is killed on the spot when the engine stops; by then it has packed
        served.end()
        yield Recorded(open_run(served.folder()), replies)
    finally:
        served.end()


def expected(task: str | None, layer: int) -> set[int]:
    """The four experts of a task's tokens."""
    quarter = QUARTERS[task]
    place = quarter ^ 1 if layer % 2 else quarter
    return set(range(4 * place, 4 * place + 4))


@pytest.mark.parametrize("task", QUARTERS)
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
        "SELECT sum(layer_tokens)::BIGINT AS tokens, max(last_step) AS last FROM experts WHERE layer = 0 AND expert = 0"
    )
    steps = recorded.run.one(
        "SELECT sum(scheduled_tokens)::BIGINT AS tokens FROM steps WHERE step <= $last", {"last": seen["last"]}
    )
    assert seen["tokens"] == steps["tokens"]


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
    """Three quarters of the vocabulary take turns. The traffic is too short for windows: one look."""
    found = next(r for r in all_rules() if r.id == rule)
    evidence = gather(recorded.run, found.needs, None)
    _, verdict = judge_once(found, evidence, WHOLE, {})
    assert verdict.kind == "not_applicable"
    assert "each rank has a part of every expert" in verdict.says
    assert rule == "moe.rank_imbalance" or "the hottest of 16 experts got" in verdict.says
