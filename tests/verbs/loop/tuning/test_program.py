"""Outside proposers that answer, hang, die, talk too much, or leave children behind. Each is a real process."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from pellucid.catalog.knobs.spelling import Engine
from pellucid.core.errors import AskedWrongly
from pellucid.tune.propose import Answer, Brief
from pellucid.tune.space import Setting
from pellucid.tune.state import State
from pellucid.verbs.loop.tuning.program import program

pytestmark = pytest.mark.slow

ENGINE = Engine("vllm", "0.32.0", {"device": "cpu", "max_num_seqs": 16})
BRIEF = Brief(ENGINE, {}, (), State(), frozenset(), 1)


def answers(code: str, times: int = 1, limit_s: float = 20) -> list[Answer]:
    with program([sys.executable, "-c", code], limit_s) as ask:
        return [ask(BRIEF) for _ in range(times)]


GOOD = """
import json, sys
for n, line in enumerate(sys.stdin):
    said = json.loads(line)
    assert said["pellucid"] == 1
    print(json.dumps({"done": "enough"} if n == 2 else {"propose": [{"set": {"max_num_seqs": 32 + n}}]}), flush=True)
"""


def test_a_program_is_asked_and_answers_until_it_is_done() -> None:
    found = answers(GOOD, 4)
    assert [p.candidate for a in found for p in a.proposals] == [
        (Setting("max_running_requests", 32),), (Setting("max_running_requests", 33),)]  # fmt: skip
    assert [a.done for a in found] == [False, False, True, True]
    assert all(not a.trouble for a in found)


@pytest.mark.parametrize(("code", "says"), [
    ("import time; time.sleep(60)", "did not answer in 1 s"),
    ("import sys; sys.exit(3)", "ended without an answer|does not read what it is asked"),
    ("input(); print('{\"propose', end='', flush=True)", "in the middle of a line"),
    ("input(); print('hello')", "is no answer"),
    ("input(); print('x' * 3_000_000, end='')", "more than 1,048,576 bytes"),
    ("while True: print('y' * 1000, end='')", "more than 1,048,576 bytes|did not answer"),
])  # fmt: skip
def test_one_that_does_not_keep_to_it_is_told_in_words_and_not_asked_again(code: str, says: str) -> None:
    first, second = answers(code, 2, limit_s=1)
    assert (first.proposals, first.done, second) == ((), True, Answer((), done=True))
    assert any(part in first.trouble[0] for part in says.split("|")), first.trouble


def test_a_question_that_nobody_reads_does_not_hold_us_up() -> None:
    big = Brief(ENGINE, {"x": "y" * 2_000_000}, (), State(), frozenset(), 1)
    began = time.monotonic()
    with program([sys.executable, "-c", "import time; time.sleep(60)"], 0.5) as ask:
        assert "did not answer" in ask(big).trouble[0]
    assert time.monotonic() - began < 15


def test_nothing_of_it_is_left(tmp_path: Path) -> None:
    code = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open({str(tmp_path / "pids")!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(60)
"""
    answers(code, limit_s=3)
    pids = [int(p) for p in (tmp_path / "pids").read_text().split()]
    until = time.monotonic() + 5
    while any(alive(p) for p in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert [p for p in pids if alive(p)] == []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_program_that_is_not_there_is_asked_wrongly() -> None:
    with pytest.raises(AskedWrongly, match="cannot start the proposer"), program(["/no/such/agent"], 1):
        pass
