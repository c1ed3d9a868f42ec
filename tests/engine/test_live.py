"""Live settings of real engines that serve: what is set shows in the recorded steps, and what is refused in nothing."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.core.run import read_info, run_folders
from pellucid.store.read import RunReader, open_run
from pellucid.testing.accounting import LAWS, broken
from pellucid.testing.traffic import Ask, Reply, send
from pellucid.verbs.loop.live import Desk, keep, open_desk, revert, set_values, status, undo
from tests.engine.fact_table import committed_facts
from tools.real_engine import OLDER, PYTHON
from tools.recording import Served, launch, pellucid
from tools.traffic.prompts import tokens

MODEL, SEQUENCES, BUDGET = "tiny-dense", 16, 2048
DRAFTS = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
FLAGS = ("--max-model-len", "1024", "--max-num-seqs", str(SEQUENCES), "--block-size", "32",
         "--max-num-batched-tokens", str(BUDGET), "--speculative-config", json.dumps(DRAFTS))  # fmt: skip
COPY = {"allowed_token_ids": [99], "temperature": 0}      # says one token again and again, so that drafts are made
SILENCE_S = 0.3       # between two parts of the script, so that no step belongs to both
REFUSED: tuple[dict[str, Any], ...] = (
    {"scheduled_token_budget": 0}, {"scheduled_token_budget": 3}, {"scheduled_token_budget": BUDGET + 1},
    {"sequence_cap": 0}, {"sequence_cap": SEQUENCES + 1}, {"sequence_cap": True}, {"sequence_cap": "4"},
    {"sequence_cap": 4.0}, {"sequence_cap": None}, {"long_prefill_threshold": 1}, {"long_prefill_threshold": 1025},
    {"admission_watermark": 1.0}, {"reserve_full_prompt": 1}, {"no_drafts_for_tasks": "copy"},
    {"sequence_cap": 4, "scheduled_token_budget": 0}, {"queued_requests_cap": 0}, {"max_num_seqs": 4},
    {"draft_table": [[1, 16, 2]]}, {"colour": 1},
)  # fmt: skip


@dataclass(slots=True)
class Script:
    served: Served
    desk: Desk
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    replies: dict[str, list[Reply]] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)

    def send(self, part: str, asks: list[Ask]) -> None:
        time.sleep(SILENCE_S)
        start_ns = time.monotonic_ns()
        self.replies[part] = send(self.served.url, MODEL, asks)
        self.spans[part] = (start_ns, time.monotonic_ns())

    def sent(self, part: str, values: dict[str, Any], asks: Callable[[], list[Ask]]) -> None:
        """With the values, and without; each time prompts that no cache knows."""
        set_values(self.desk, values, 120)
        self.send(part, asks())
        revert(self.desk)
        self.send(f"{part} after", asks())

    def values(self) -> dict[str, Any]:
        return {p.knob: p.value for p in status(self.desk) if not p.blind}


def serving(home: Path, python: Path) -> Script:
    before = frozenset(run_folders(home))
    engine, ready_s = launch(MODEL, FLAGS, home / "engine.log", pellucid("run", "--control", "--"),
                             {"PELLUCID_HOME": str(home)}, python=python)  # fmt: skip
    served = Served(engine, MODEL, home, ready_s, before)
    return Script(served, open_desk(Path(read_info(served.folder()).source), "a test"))


def prompts(pick: random.Random, count: int, length: int, output: int, **more: Any) -> list[Ask]:
    return [Ask(0, tokens(pick, length), output, **more) for _ in range(count)]


def copies(pick: random.Random) -> list[Ask]:
    """Three tasks: two that say their name in the body, one in a header."""
    named: list[dict[str, Any]] = [{"task": "plain"}, {"task": "copy"}, {"headers": {"X-Pellucid-Task": "spoken"}}]
    return [ask for name in named for ask in prompts(pick, 2, 20, 60, extra=COPY, **name)]


def killed_controller(script: Script) -> None:
    """`pellucid live` is killed while its values are in force: within its lease they are those of before."""
    command = pellucid("live", "--set", "sequence_cap=2", "--for", "5m")
    child = subprocess.Popen(command, env={**os.environ, "PELLUCID_HOME": str(script.served.home)})
    while script.values()["sequence_cap"] != 2:
        time.sleep(0.1)
    child.kill()
    child.wait()
    script.seen["killed"] = script.values()["sequence_cap"]
    with pytest.raises(AskedWrongly, match="held by pellucid live"):
        set_values(script.desk, {"sequence_cap": 8}, 10)
    killed_s = time.monotonic()
    while script.values()["sequence_cap"] == 2:
        time.sleep(0.2)
    script.seen["back"], script.seen["back_s"] = script.values()["sequence_cap"], time.monotonic() - killed_s


def play(script: Script) -> None:
    pick = random.Random(12)
    script.send("warm-up", prompts(pick, 1, 20, 4))
    script.seen["start"] = script.values()
    script.sent("cap", {"sequence_cap": 4}, lambda: prompts(pick, 12, 20, 40))
    script.sent("budget", {"scheduled_token_budget": 64}, lambda: prompts(pick, 4, 400, 4))
    script.sent("threshold", {"long_prefill_threshold": 100}, lambda: prompts(pick, 4, 400, 4))
    script.sent("drafts", {"no_drafts_for_tasks": ["plain", "spoken"]}, lambda: copies(pick))
    # Not streams: one that has begun is answered with 200, and with the error in it.
    script.sent("admission", {"queued_requests_cap": 2}, lambda: prompts(pick, 6, 20, 60, stream=False))
    script.seen["refused"] = [refusal(script.desk, values) for values in REFUSED]
    script.send("refused", prompts(pick, 2, 20, 8))
    set_values(script.desk, {"sequence_cap": 6}, 30)
    keep(script.desk)
    revert(script.desk)
    script.seen["kept"] = script.values()["sequence_cap"]
    undo(script.desk)
    script.seen["undone"] = script.values()
    killed_controller(script)
    script.send("end", prompts(pick, 2, 20, 8))


def refusal(desk: Desk, values: dict[str, Any]) -> str:
    with pytest.raises(AskedWrongly) as refused:
        set_values(desk, values, 10)
    return str(refused.value)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Script, RunReader]]:
    script = serving(tmp_path_factory.mktemp("live"), PYTHON)
    try:
        play(script)
    finally:
        script.served.end()
    assert script.served.stubborn == []
    yield script, open_run(script.served.folder())


Live = tuple[Script, RunReader]


def most(live: Live, part: str, what: str, table: str = "steps") -> Any:
    start_ns, end_ns = live[0].spans[part]
    steps = f"(SELECT step FROM steps WHERE start_ns BETWEEN {start_ns} AND {end_ns})"
    return live[1].one(f"SELECT max({what}) AS n FROM {table} WHERE step IN {steps}")["n"]


def test_a_lower_cap_holds_in_every_step_and_goes_again(live: Live) -> None:
    assert (most(live, "cap", "running_count"), most(live, "cap", "waiting_count") > 0) == (4, True)
    assert most(live, "cap after", "running_count") > 4


def test_a_smaller_budget_holds_in_every_step_and_goes_again(live: Live) -> None:
    assert most(live, "budget", "scheduled_tokens") == 64
    assert most(live, "budget after", "scheduled_tokens") > 64


def test_a_threshold_cuts_long_prompts_where_others_are_there(live: Live) -> None:
    start_ns, _ = live[0].spans["threshold"]
    alone = live[1].one(f"SELECT min(step) AS n FROM steps WHERE start_ns >= {start_ns}")["n"]
    span = "SELECT max(tokens) AS n FROM step_requests JOIN steps USING (step) WHERE step > $alone AND start_ns < $end"
    assert live[1].one(span, {"alone": alone, "end": live[0].spans["threshold"][1]})["n"] == 100
    assert most(live, "threshold after", "tokens", "step_requests") > 100


def drafted(live: Live, part: str) -> dict[str, int]:
    start_ns, end_ns = live[0].spans[part]
    rows = live[1].rows(f"""SELECT task, sum(drafted_tokens)::BIGINT AS n FROM requests
                            WHERE arrival_ns BETWEEN {start_ns} AND {end_ns} GROUP BY task""")
    return {r["task"]: r["n"] for r in rows}


def test_named_tasks_get_no_drafts_and_others_do(live: Live) -> None:
    counts = drafted(live, "drafts")
    assert (counts["plain"], counts["spoken"], counts["copy"] > 0) == (0, 0, True)
    assert min(drafted(live, "drafts after").values()) > 0


def test_admission_is_capped_in_the_frontend(live: Live) -> None:
    codes = [r.status for r in live[0].replies["admission"]]
    assert (codes.count(200), set(codes)) == (2, {200, 503})


def test_refused_values_say_the_bound_and_leave_the_engine_serving(live: Live) -> None:
    said = dict(zip(map(str, REFUSED), live[0].seen["refused"], strict=True))
    assert "from 4 to 2048" in said["{'scheduled_token_budget': 0}"]
    assert f"from 1 to {SEQUENCES}, not '17'" in said["{'sequence_cap': 17}"]
    assert "Downwards, sequence_cap does the same" in said["{'max_num_seqs': 4}"]
    assert [r.status for r in live[0].replies["refused"]] == [200, 200]


def test_what_was_kept_stays_until_it_is_undone(live: Live) -> None:
    seen = live[0].seen
    assert (seen["kept"], seen["undone"]) == (6, seen["start"])


def test_a_killed_controllers_values_are_gone_within_its_lease(live: Live) -> None:
    seen = live[0].seen
    assert (seen["killed"], seen["back"], 0 < seen["back_s"] < 17) == (2, SEQUENCES, True)


def test_everybody_else_is_answered_and_the_probe_had_no_error(live: Live) -> None:
    script, run = live
    others = [r.status for part, replies in script.replies.items() if part != "admission" for r in replies]
    host = run.one("SELECT max(probe_errors_count) AS errors FROM host")
    assert (set(others), host["errors"]) == ({200}, 0)


def test_what_was_changed_stays_with_the_run(live: Live) -> None:
    files = sorted((live[1].folder / "control").glob("*.audit.jsonl"))
    lines = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    done = [(x["action"], x["old"], x["new"]) for x in lines if x["result"] == "done" and x["new"]]
    assert [p.name.split("-")[0] for p in files] == ["engine_core", "frontend"]
    assert ("set", {"sequence_cap": SEQUENCES}, {"sequence_cap": 4}) in done
    assert ("expired", {"sequence_cap": 2}, {"sequence_cap": SEQUENCES}) in done
    assert {"refused"} == {x["result"] for x in lines} - {"done"}


@pytest.mark.parametrize("law", LAWS)
def test_it_adds_up(live: Live, law: str) -> None:
    assert broken(live[1], {law: LAWS[law]}) == {}


def control_facts(run: RunReader) -> set[tuple[str, str, str]]:
    rows = run.rows("SELECT DISTINCT fact, role, state FROM facts WHERE fact LIKE 'control.%'")
    return {(r["fact"], r["role"], r["state"]) for r in rows}


def known(version: str) -> set[tuple[str, str, str]]:
    with_control = [committed_facts(version, "cpu", doing) for doing in ("control", "control and speculation")]
    return set().union(*with_control) - committed_facts(version, "cpu")


def test_the_live_settings_are_those_of_the_committed_table(live: Live) -> None:
    assert control_facts(live[1]) == known("0.32")


def test_the_oldest_minor_has_those_of_the_committed_table_and_says_why_not_the_others(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    script = serving(tmp_path_factory.mktemp("older-live"), OLDER)
    pick = random.Random(1)
    try:
        script.send("warm-up", prompts(pick, 1, 20, 4))
        blind = {p.knob: p.blind for p in status(script.desk) if p.blind}
        script.sent("budget", {"scheduled_token_budget": 64}, lambda: prompts(pick, 4, 400, 4))
        script.sent("drafts", {"no_drafts_for_tasks": ["plain", "spoken"]}, lambda: copies(pick))
        with contextlib.suppress(AskedWrongly):
            set_values(script.desk, {"sequence_cap": 2}, 10)
    finally:
        script.served.end()
    live = (script, open_run(script.served.folder()))
    assert "max_num_active_reqs" in blind["sequence_cap"]
    assert (most(live, "budget", "scheduled_tokens"), most(live, "budget after", "scheduled_tokens") > 64) == (64, True)
    counts = drafted(live, "drafts")
    assert (counts["plain"], counts["spoken"], counts["copy"] > 0) == (0, 0, True)
    assert control_facts(live[1]) == known("0.28")
