"""An engine that is not what the probe expects, and one that cannot start: said clearly, and the engine comes first."""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest

from pellucid.store.read import RunReader, open_run
from pellucid.testing.engine import EngineDied, Launch, start, wait_ready
from pellucid.testing.traffic import Ask, Reply, send
from tools import real_engine
from tools.recording import pellucid, serve
from tools.traffic.prompts import tokens

FLAGS = ("--max-model-len", "2048", "--max-num-seqs", "8", "--load-format", "dummy")

# Runs in every process of the engine before anything else: another version, a parameter renamed, a hook that raises.
CHANGED = '''
import importlib.abc, importlib.machinery, sys

def versions(module):
    module.engine_version = lambda: "9.99.0"

def scheduler(module):
    original = module.Scheduler._preempt_request
    module.Scheduler._preempt_request = lambda self, victim, *a, **k: original(self, victim, *a, **k)

class Broken:
    @property
    def level(self):
        raise ValueError("made to raise")

def frontend(module):
    original = module.DeliverHook.__init__      # its hook runs for every batch of outputs
    module.DeliverHook.__init__ = lambda self, outbox, governor: original(self, outbox, Broken())

EDITS = {"vllm.v1.core.sched.scheduler": scheduler, "pellucid_probe.vllm.frontend": frontend,
         "pellucid_probe.vllm.config": versions}

class Edit(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in EDITS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            EDITS[name](module)
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Edit())
'''


@dataclass(slots=True)
class Changed:
    run: RunReader
    replies: list[Reply]


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Changed:
    tmp = tmp_path_factory.mktemp("changed")
    (tmp / "site").mkdir()
    (tmp / "site" / "sitecustomize.py").write_text(CHANGED)
    served = serve("tiny-dense", FLAGS, tmp / "home", tmp / "engine.log", env={"PYTHONPATH": str(tmp / "site")})
    try:
        pick = random.Random(3)
        replies = send(served.url, "tiny-dense", [Ask(n / 10, tokens(pick, 20), 16) for n in range(12)])
    finally:
        served.end()
    return Changed(open_run(served.folder()), replies)


def last_state(run: RunReader, fact: str) -> tuple[str, str]:
    rows = run.rows("SELECT state, reason FROM facts WHERE fact = $fact", {"fact": fact})
    return rows[-1]["state"], rows[-1]["reason"]


@pytest.mark.engine
def test_the_changed_engine_answers_everything(changed: Changed) -> None:
    assert [r.status for r in changed.replies] == [200] * 12


@pytest.mark.engine
def test_a_target_with_another_parameter_is_one_blind_fact(changed: Changed) -> None:
    state, reason = last_state(changed.run, "request.preempted")
    assert state == "blind"
    assert "_preempt_request takes ('self', 'victim'" in reason
    assert last_state(changed.run, "step.composition") == ("visible", "")


@pytest.mark.engine
def test_a_hook_that_raises_falls_silent_and_says_so(changed: Changed) -> None:
    state, reason = last_state(changed.run, "request.delivered")
    assert state == "blind"
    assert "switched itself off after 5 errors" in reason
    assert "ValueError: made to raise" in reason


@pytest.mark.engine
def test_the_rest_of_the_changed_engine_is_recorded_whole(changed: Changed) -> None:
    rows = changed.run.rows("SELECT output_tokens, ttft_frontend_ns, first_delivered_ns FROM request_latency")
    assert [(r["output_tokens"], r["first_delivered_ns"]) for r in rows] == [(16, None)] * 12
    assert all(r["ttft_frontend_ns"] > 0 for r in rows)


@pytest.mark.engine
def test_an_unknown_engine_version_is_recorded_as_it_is(changed: Changed) -> None:
    assert changed.run.rows("SELECT DISTINCT engine_version FROM sources") == [{"engine_version": "9.99.0"}]


@pytest.mark.engine
def test_an_engine_that_cannot_start_shows_its_last_lines_and_leaves_its_code(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = (*pellucid("run", "--"), *real_engine.command("tiny-dense", taken.getsockname()[1], *FLAGS))
        env = {**real_engine.ENVIRONMENT, "PELLUCID_HOME": str(tmp_path / "home")}
        url = "http://127.0.0.1:9"     # nobody answers there: the port in use is not ours to ask
        engine = start(Launch(command, url, tmp_path / "engine.log", env, cwd=real_engine.ROOT))
        with pytest.raises(EngineDied):
            wait_ready(engine, 120)
    log = (tmp_path / "engine.log").read_text()
    assert engine.process.returncode == 1
    assert "Address already in use" in log
    assert "pellucid: the engine ended with code 1" in log
