"""Without a folder to write to, or switched off, the probe does nothing: no hook, no file, no thread."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from pellucid.testing.engine import stop
from pellucid.testing.traffic import Ask, send
from tools import real_engine
from tools.real_engine import OLDER, PYTHON
from tools.recording import launch
from tools.traffic.prompts import tokens

# Loads the plugins as every engine process does, then looks at what the probe would have wrapped.
LOOK = """
import json, sys, threading
from vllm.plugins import load_general_plugins
import vllm.v1.engine.core, vllm.v1.engine.async_llm, vllm.v1.worker.worker_base
load_general_plugins()
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine.core import EngineCore
from vllm.v1.worker.worker_base import WorkerWrapperBase
methods = (EngineCore.__init__, Scheduler.schedule, WorkerWrapperBase.init_worker)
print(json.dumps({
    "own": ["site-packages/vllm/" in m.__code__.co_filename for m in methods],
    "loaded": "pellucid_probe" in sys.modules,
    "threads": [t.name for t in threading.enumerate() if "pellucid" in t.name],
}))
"""


def loaded(python: Path, **env: str) -> dict[str, list[object]]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PELLUCID")}
    done = subprocess.run(
        [str(python), "-c", LOOK], env={**clean, **real_engine.ENVIRONMENT, **env},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    seen = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(seen, dict)
    return seen


@pytest.mark.parametrize(("python", "off"), [(PYTHON, True), (PYTHON, False), (OLDER, False)])
def test_no_hook_without_a_folder_or_switched_off(tmp_path: Path, python: Path, off: bool) -> None:
    seen = loaded(python, PELLUCID_DIR=str(tmp_path), PELLUCID_OFF="1") if off else loaded(python)
    assert seen["loaded"], "the plugin was not called at all: nothing was tested"
    assert (seen["own"], seen["threads"]) == ([True] * 3, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("python", [PYTHON, OLDER])
def test_with_a_folder_the_same_look_finds_hooks(tmp_path: Path, python: Path) -> None:
    assert False in list(loaded(python, PELLUCID_DIR=str(tmp_path))["own"])


def test_an_engine_switched_off_serves_and_writes_nothing(tmp_path: Path) -> None:
    rings = tmp_path / "rings"
    rings.mkdir()
    off = {"PELLUCID_DIR": str(rings), "PELLUCID_OFF": "1"}
    engine, _ = launch("tiny-dense", ("--max-model-len", "512"), tmp_path / "engine.log", env=off)
    try:
        replies = send(engine.url, "tiny-dense", [Ask(0, tokens(random.Random(1), 20), 20) for _ in range(4)])
    finally:
        stubborn = stop(engine)
    assert [r.output_tokens for r in replies] == [20] * 4
    assert (list(rings.iterdir()), stubborn) == ([], [])
