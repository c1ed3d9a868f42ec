"""Two API server processes under live control: a cap holds in both, or in none of them."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.core.errors import Failed
from pellucid.core.run import read_info, run_folders
from pellucid.testing.traffic import Ask, send
from pellucid.verbs.loop.live import Desk, Present, open_desk, revert, set_values, status
from tools.real_engine import COMMAND_LINE, name_engine
from tools.recording import Served, launch, pellucid
from tools.traffic.prompts import tokens

FLAGS = ("--max-model-len", "1024", "--max-num-seqs", "8", "--api-server-count", "2")
KNOB = "queued_requests_cap"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Desk]]:
    home = tmp_path_factory.mktemp("two-live")
    before = frozenset(run_folders(home))
    paths = [name_engine(home / "named")["PYTHONPATH"], os.environ.get("PYTHONPATH")]
    env = {"PELLUCID_HOME": str(home), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    engine, ready_s = launch("tiny-dense", FLAGS, home / "engine.log", pellucid("run", "--control", "--"), env,
                             entry=COMMAND_LINE)  # fmt: skip
    served = Served(engine, "tiny-dense", home, ready_s, before)
    try:
        send(served.url, served.model, [Ask(0, tokens(random.Random(1), 20), 4)])
        yield served, open_desk(Path(read_info(served.folder()).source), "a test")
    finally:
        served.end()


def capped(desk: Desk) -> list[Present]:
    return [p for p in status(desk) if p.knob == KNOB]


def test_a_cap_is_taken_by_both_and_given_back_by_both(two: tuple[Served, Desk]) -> None:
    served, desk = two
    assert [(c.old, c.new) for c in set_values(desk, {KNOB: 1}, 60).changes] == [(None, 1)] * 2
    pick = random.Random(2)
    asks = [Ask(0, tokens(pick, 20), 80, stream=False) for _ in range(8)]
    codes = [r.status for r in send(served.url, served.model, asks)]
    assert (1 <= codes.count(200) <= 2, set(codes)) == (True, {200, 503})     # each counts its own
    revert(desk)
    assert [p.value for p in capped(desk)] == [None, None]
    codes = [r.status for r in send(served.url, served.model, [Ask(0, tokens(pick, 20), 8) for _ in range(8)])]
    assert codes == [200] * 8


def test_where_one_of_them_hangs_it_is_named_and_the_other_has_its_value_back(two: tuple[Served, Desk]) -> None:
    _, desk = two
    hangs = capped(desk)[0].process
    pid = int(hangs.split("-")[1])
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(Failed, match=f"no answer within 5 s from {hangs}: "):
            set_values(desk, {KNOB: 1}, 60)
    finally:
        os.kill(pid, signal.SIGCONT)
    time.sleep(1)
    assert [(p.value, p.held_by) for p in capped(desk)] == [(None, "")] * 2
