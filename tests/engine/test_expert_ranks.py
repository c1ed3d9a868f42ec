"""Two expert-parallel ranks, real but for a mended kernel (tools/cpu_ranks.py): who holds which expert, and both rules.

Quarters 0 and 1 of the vocabulary take experts of the first rank only, quarter 2 of the second (tools/models/tiny.py).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pellucid.diagnose.evidence import WHOLE, gather
from pellucid.diagnose.registry import all_rules
from pellucid.diagnose.rule import Row, Verdict
from pellucid.diagnose.run import judge_once
from pellucid.store.read import RunReader, open_run
from pellucid.testing.build import build_run
from pellucid.testing.traffic import Reply, send
from tools import cpu_ranks
from tools.recording import serve
from tools.traffic.experts import quarter_ask

FLAGS = ("--max-model-len", "512", "--max-num-seqs", "8", *cpu_ranks.FLAGS)
QUARTERS = {"chat": 0, "code": 1, "mail": 2}


@dataclass(slots=True)
class Recorded:
    run: RunReader
    replies: list[Reply]

    def routed(self, *tasks: str) -> int:
        mine = [r for r in self.replies if r.ask.task in tasks]
        return sum((r.prompt_tokens or 0) + (r.output_tokens or 0) - 1 for r in mine)

    def judged(self, folder: Path, rule_id: str, *tasks: str) -> tuple[Row, Verdict]:
        """A rule's verdict on the rows of some tasks, as if the others had not been there, all in one window."""
        rows = self.run.rows(
            "SELECT * REPLACE (0 AS start_ns) FROM experts WHERE list_contains($tasks, task)", {"tasks": [*tasks]}
        )
        rule = next(r for r in all_rules() if r.id == rule_id)
        part = open_run(build_run(folder, {"experts": rows}))
        return judge_once(rule, gather(part, rule.needs, None), WHOLE, {})


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    home = tmp_path_factory.mktemp("ranks")
    env = {"PELLUCID_EXPERTS_EVERY": "1", **cpu_ranks.environment(home)}
    served = serve("tiny-skewed", FLAGS, home, home / "engine.log", env=env)
    try:
        pick = random.Random(4)
        asks = [replace(quarter_ask(pick, task, quarter), at_s=pick.uniform(0, 4))
                for task, quarter in QUARTERS.items() for _ in range(8)]  # fmt: skip
        replies = send(served.url, served.model, asks)
        # A window younger than a second stays open when the engine falls idle: one more request closes it.
        send(served.url, served.model, [replace(quarter_ask(pick, "end", 3), at_s=1.5)])
        time.sleep(1.0)     # a worker is killed on the spot when the engine stops; by then it has packed
        served.end()
        yield Recorded(open_run(served.folder()), replies)
    finally:
        served.end()


def test_the_first_rank_holds_the_first_half_of_the_experts(recorded: Recorded) -> None:
    placed = recorded.run.rows("SELECT DISTINCT layer, expert, rank, ranks_count FROM experts")
    assert {(p["layer"], p["expert"], p["rank"], p["ranks_count"]) for p in placed} == {
        (layer, expert, expert // 8, 2) for layer in range(4) for expert in range(16)
    }


def test_a_rank_has_the_tokens_of_the_tasks_that_want_its_experts(recorded: Recorded) -> None:
    loads = recorded.run.rows(
        "SELECT layer, rank, sum(expert_tokens)::BIGINT AS n FROM experts WHERE task <> 'end' GROUP BY layer, rank"
    )
    tokens = {0: 4 * recorded.routed("chat", "code"), 1: 4 * recorded.routed("mail")}
    assert {(r["layer"], r["rank"]): r["n"] for r in loads} == {
        (layer, rank): n for layer in range(4) for rank, n in tokens.items()
    }


def test_one_rank_reports_what_both_route_and_the_other_says_so(recorded: Recorded) -> None:
    assert len(recorded.run.rows("SELECT DISTINCT process FROM experts")) == 1
    states = recorded.run.rows(
        "SELECT process, any_value(reason) AS reason FROM facts WHERE fact = 'worker.experts' GROUP BY process, state "
        "HAVING state = 'blind'"
    )
    assert [s["reason"] for s in states] == ["the first rank of its tensor-parallel group reports the same tokens"]


def test_four_hot_experts_on_one_rank_are_a_skew(recorded: Recorded, tmp_path: Path) -> None:
    row, verdict = recorded.judged(tmp_path / "skew", "moe.expert_skew", "chat")
    assert (verdict.kind, row["hottest_tokens"]) == ("found", 4 * recorded.routed("chat"))
    assert "the hottest of 16 experts got 4.0 times the mean" in verdict.says
    assert "the busiest of 2 ranks 2.0 times the mean" in verdict.says
    assert recorded.judged(tmp_path / "ranks", "moe.rank_imbalance", "chat")[1].kind == "not_applicable"


def test_eight_warm_experts_on_one_rank_are_an_imbalance(recorded: Recorded, tmp_path: Path) -> None:
    _, verdict = recorded.judged(tmp_path / "ranks", "moe.rank_imbalance", "chat", "code")
    assert (verdict.kind, dict(verdict.targets)) == ("found", {"expert_balancing": 1.0})
    assert "the busiest of 2 ranks got 2.0 times the mean" in verdict.says
    assert recorded.judged(tmp_path / "skew", "moe.expert_skew", "chat", "code")[1].kind == "clear"


@pytest.mark.parametrize("rule", ["moe.expert_skew", "moe.rank_imbalance"])
def test_the_same_on_both_ranks_is_neither(recorded: Recorded, tmp_path: Path, rule: str) -> None:
    _, verdict = recorded.judged(tmp_path, rule, "chat", "mail")
    assert verdict.kind == "clear", verdict.says


def test_the_probe_made_no_error(recorded: Recorded) -> None:
    assert recorded.run.one("SELECT max(probe_errors_count) AS n FROM host")["n"] == 0
