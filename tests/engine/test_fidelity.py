"""Verdicts on real engines: the same weights with and without drafts, other weights, another temperature than asked."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from pellucid.core.units import S_NS
from pellucid.testing.engine import Engine, free_port, stop
from pellucid.verbs.loop.fidelity import Chosen, Engines, Fidelity, Plan, fidelity
from pellucid.workload.neutral import neutral
from tools import real_engine
from tools.recording import launch
from tools.scenarios import GEMMA

FLAGS = ("--max-model-len", "1024", "--max-num-seqs", "8")
NGRAM = '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}'
PLAN = Plan(300 * S_NS, max_tokens=24)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Engine]]:
    """The reference, and the same model with drafts of its own prompt's words; a core each."""
    folder = tmp_path_factory.mktemp("fidelity")

    def one(core: int, *more: str) -> Engine:
        log = folder / f"engine-{core}.log"
        return launch(GEMMA, (*FLAGS, *more), log, env={"VLLM_CPU_OMP_THREADS_BIND": str(core)})[0]

    with ThreadPoolExecutor() as pool:
        started = [pool.submit(one, 0), pool.submit(one, 1, "--speculative-config", NGRAM)]
    try:
        yield started[0].result(), started[1].result()
    finally:
        for engine in [future.result() for future in started if not future.exception()]:
            if engine.process.poll() is None:
                stop(engine, 20)


def judged(candidate: str, reference: str, prompts: int, temperature: float | None = None) -> Fidelity:
    asked = [replace(p, temperature=temperature) for p in neutral(prompts, seed=5)]
    return fidelity(Engines(candidate, reference), Chosen(asked, "our own"), PLAN)


class Heating(BaseHTTPRequestHandler):
    """Hands requests on to an engine, with a temperature of 1.4."""

    engine = ""

    def do_GET(self) -> None:
        self.answer(httpx.get(self.engine + self.path, timeout=120))

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "prompt_logprobs" not in asked:
            asked["temperature"] = 1.4
        self.answer(httpx.post(self.engine + self.path, json=asked, timeout=120))

    def answer(self, reply: httpx.Response) -> None:
        self.send_response(reply.status_code)
        self.send_header("Content-Length", str(len(reply.content)))
        self.end_headers()
        self.wfile.write(reply.content)

    def log_message(self, format: str, *args: object) -> None:
        """Not on the screen."""


@contextmanager
def heated(engine: str) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Heating,), {"engine": engine}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_engine_does_not_differ_from_itself(engines: tuple[Engine, Engine]) -> None:
    found = judged(engines[0].url, engines[0].url, prompts=8)
    assert found.word in ("same", "inconclusive"), found.reason
    assert found.forced is not None and found.forced.kl_nats == 0.0


def test_drafts_that_are_checked_greedily_are_the_same(engines: tuple[Engine, Engine]) -> None:
    found = judged(engines[1].url, engines[0].url, prompts=8, temperature=0.0)
    assert found.word == "same", found.reason
    assert found.forced is not None and found.forced.word == "same"


def test_drafts_that_are_checked_by_sampling_are_different_on_this_engine(engines: tuple[Engine, Engine]) -> None:
    """Lossless in theory. On CPUs this build never fills in the temperature of positions with drafts: `expand_kernel`
    writes to a copy of what is no int64, and tokens are drawn at whatever the memory held. Once it is mended, this
    fails, and what has to hold is what holds greedily."""
    found = judged(engines[1].url, engines[0].url, prompts=8)
    assert found.word == "different", found.reason
    assert found.forced is not None and found.forced.word == "same"


def test_answers_at_another_temperature_are_different_though_the_weights_are_not(
    engines: tuple[Engine, Engine]
) -> None:  # fmt: skip
    with heated(engines[0].url) as hot:
        found = judged(hot, engines[0].url, prompts=8)
    assert found.word == "different", found.reason
    assert found.tasks[0].differences[0].difference < -0.2
    assert found.forced is not None and found.forced.word == "same"


def test_other_weights_are_different(engines: tuple[Engine, Engine], tmp_path: Path) -> None:
    stop(engines[1], 20)
    maker = real_engine.ROOT / "tools/models/noisy.py"
    subprocess.run([real_engine.PYTHON, maker, real_engine.MODELS / GEMMA, tmp_path, "0.05"], check=True)
    flags = (*FLAGS, "--model", str(tmp_path))
    noisy, _ = launch(GEMMA, flags, tmp_path / "engine.log", env={"VLLM_CPU_OMP_THREADS_BIND": "1"})
    try:
        found = judged(noisy.url, engines[0].url, prompts=8)
    finally:
        stop(noisy, 20)
    assert found.word == "different", found.reason
    assert found.forced is not None and found.forced.word == "different"


def test_the_command_says_that_an_engine_which_is_not_there_failed(engines: tuple[Engine, Engine]) -> None:
    words = ("fidelity", "--candidate", real_engine.url(free_port()), "--reference", engines[0].url, "--json")
    command = [str(Path(sys.executable).with_name("pellucid")), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["word"] == "failed"
