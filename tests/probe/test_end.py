"""A process of the engine that ends in good order: what its hooks said last is in the ring."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pellucid_probe.process import Process
from pellucid_probe.ring import Record, RingReader

ROOT = Path(__file__).parents[2]

COUNT = 40
KIND = 1
# In a process of its own, as multiprocessing leaves one behind that tracks resources.
PARENT = """
import multiprocessing, sys
from tests.probe.test_end import live_and_end
child = multiprocessing.get_context("spawn").Process(target=live_and_end, args=(sys.argv[1],))
child.start()
child.join()
sys.exit(child.exitcode)
"""


def pack(value: int) -> list[Record]:
    time.sleep(0.005)       # our thread is at it when the process ends
    return [(KIND, value.to_bytes(4, "little"))]


def live_and_end(where: str) -> None:
    process = Process(where, "engine_core", "vllm", "0")
    process.start_thread()
    time.sleep(0.05)
    for value in range(COUNT):
        process.outbox.put(pack, value)
    process.outbox.wake()
    time.sleep(0.02)


def test_a_process_that_ends_while_our_thread_is_writing_loses_nothing() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as where:
        command = [sys.executable, "-c", PARENT, where]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        (ring,) = Path(where).glob("*.ring")
        said = [int.from_bytes(payload, "little") for kind, payload in RingReader(str(ring)).poll() if kind == KIND]
    assert said == list(range(COUNT))
