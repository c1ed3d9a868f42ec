"""From a real recording to a command: moves of findings are proposals; what may be tried becomes the engine's flags."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pellucid.store.read import open_run
from pellucid.tune.command import Command, changed
from pellucid.tune.guard import Situation, guard
from pellucid.tune.memory import Room
from pellucid.tune.propose import Brief
from pellucid.tune.propose.rules import propose
from pellucid.tune.propose.wire import encode
from pellucid.tune.space import words
from pellucid.tune.state import State
from pellucid.verbs.why import engine_of, why

pytestmark = pytest.mark.slow
GOLDEN = Path(__file__).parents[2] / "golden"
GIB = 2**30
NGRAM = """serve m --speculative-config '{"method": "ngram"}'"""


@pytest.mark.parametrize(("recording", "command", "wanted"), [
    ("sequence-cap", "serve m --max-num-seqs 2", ["max_running_requests=8: serve m --max-num-seqs 8"]),
    ("few-blocks", "serve m", ["sequence_cap=3: serve m --max-num-active-seqs 3",
                               "kv_cache_memory=152: serve m --num-gpu-blocks-override 152"]),
    ("drafts-rejected", NGRAM, ["speculation=false: serve m"]),
    ("drafts-rejected", "serve m", ["speculation=false: refused, same"]),
    ("salt-each", "serve m", ["cache_salt_per_tenant=true: refused, legality"]),
    ("healthy", "serve m", []),
])  # fmt: skip
def test_moves_of_a_recording_become_commands_or_reasons(recording: str, command: str, wanted: list[str]) -> None:
    answer, engine = why(GOLDEN / recording), engine_of(open_run(GOLDEN / recording))
    assert engine is not None
    brief = Brief(engine, answer, tuple(answer["findings"]), State(), frozenset(), 1)
    given = Command(tuple(shlex.split(command)))
    room = Room("this host", 24 * GIB, 12 * GIB, 5 * GIB)
    situation = Situation(
        engine=engine, geometry=None, command=given, present=(), tried=(), room=room, live=frozenset(), control=False,
        beside=True, may_restart=False, left_ns=9, trial_ns=1,
    )  # fmt: skip
    found = []
    for proposal in propose(brief).proposals:
        ruling = guard(proposal.candidate, situation)
        assert proposal.claim is not None
        after = " ".join(changed(given, proposal.candidate, engine).argv) if ruling.allowed else ""
        found.append(f"{words(proposal.candidate)}: {after if ruling.allowed else f'refused, {ruling.check}'}")
    assert found == wanted
    assert encode(brief).endswith(b"\n")
