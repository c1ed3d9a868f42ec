"""A small engine over HTTP: completions of a model of 48 tokens, with what may go wrong with one.

    with small_engine(temperature=1.5) as url: ...

The next token depends on the last two, by a table of random numbers; text is one letter a token. It is not ours that is
imitated here: the other side of the connection is.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

TOKENS = 48
SEEDS = itertools.count(11)      # no two engines give the same answers
LOGITS = np.random.default_rng(4).normal(0, 1.8, (TOKENS, TOKENS, TOKENS))


@dataclass
class Fault:
    """What is wrong with it. `after`: so many good replies come first."""

    kind: str = ""                # error, hang, empty, nan, no_ids, no_logprobs, tokenizer, no_model, no_json, wrong
    after: int = 0
    temperature: float = 1.0      # times what was asked for
    noise: float = 0.0            # of the weights
    seed: int = 0


class Engine(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, fault: Fault) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.fault = fault
        self.asked: Counter[tuple[int, ...]] = Counter()
        self.logits = LOGITS + np.random.default_rng(5).normal(0, 1, LOGITS.shape) * fault.noise
        self.logps = self.logits - np.log(np.exp(self.logits).sum(axis=2, keepdims=True))
        self.ranked = np.argsort(-self.logits, axis=2)
        self.served = 0
        self.salts: list[str | None] = []
        self.lock = threading.Lock()
        self.stopping = threading.Event()

    def wrong(self, kind: str) -> bool:
        return self.fault.kind == kind and self.served > self.fault.after

    def complete(self, asked: dict[str, Any]) -> dict[str, Any]:
        shift = 1 if self.wrong("tokenizer") else 0
        prompt = asked["prompt"]
        ids = [ord(c) % TOKENS + shift for c in prompt] if isinstance(prompt, str) else prompt
        self.salts.append(asked.get("cache_salt"))
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        if top := asked.get("prompt_logprobs"):
            choice["prompt_logprobs"] = self.shown(ids, top)
        made = [] if self.wrong("empty") else self.sampled(ids, asked)
        choice.update(text="".join(chr(97 + t % 26) for t in made), token_ids=made, prompt_token_ids=ids)
        if self.wrong("no_ids"):
            del choice["token_ids"]
        return {"choices": [choice]}

    def sampled(self, ids: list[int], asked: dict[str, Any]) -> list[int]:
        heat = max(asked.get("temperature", 1.0) * self.fault.temperature, 1e-6)
        with self.lock:
            self.asked[tuple(ids)] += 1
            random = np.random.default_rng([self.fault.seed, self.asked[tuple(ids)], *ids])
        made: list[int] = []
        for _ in range(asked["max_tokens"]):
            a, b = ([1, 1, *ids, *made])[-2:]
            logits = self.logits[a % TOKENS, b % TOKENS]
            made.append(int((logits / heat + random.gumbel(size=TOKENS)).argmax()))
        return made

    def shown(self, ids: list[int], top: int) -> list[dict[str, Any] | None] | None:
        if self.wrong("no_logprobs"):
            return None
        out: list[dict[str, Any] | None] = [None]
        for place in range(1, len(ids)):
            a, b = ([1, *ids])[place - 1 : place + 1]
            logps = self.logps[a % TOKENS, b % TOKENS].tolist()
            named = {*self.ranked[a % TOKENS, b % TOKENS, :top].tolist(), ids[place] % TOKENS}
            out.append({str(t): {"logprob": None if self.wrong("nan") else logps[t]} for t in named})
        return out


class Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        models = [] if self.server.fault.kind == "no_model" else [{"id": "small", "max_model_len": 512}]
        self.say(200, {"data": models})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.served += 1
        if self.server.wrong("error"):
            self.say(500, {"error": "EngineDeadError"})
        elif self.server.wrong("no_json"):
            self.answer(200, b"<html>")
        elif self.server.wrong("hang"):
            self.server.stopping.wait(30)
        else:
            self.say(200, self.server.complete(asked))

    def say(self, status: int, what: dict[str, Any]) -> None:
        self.answer(status, json.dumps(what).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Not on the screen."""


@contextmanager
def small_engine(kind: str = "", after: int = 0, temperature: float = 1.0, noise: float = 0.0) -> Iterator[str]:
    """Its address."""
    with engine_of(kind, after, temperature, noise) as engine:
        yield f"http://127.0.0.1:{engine.server_port}"


@contextmanager
def engine_of(kind: str = "", after: int = 0, temperature: float = 1.0, noise: float = 0.0) -> Iterator[Engine]:
    """Which answers a prompt gets depends on how often it was asked, and on nothing that runs beside it."""
    engine = Engine(Fault(kind, after, temperature, noise, next(SEEDS)))
    thread = threading.Thread(target=engine.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield engine
    finally:
        engine.stopping.set()
        engine.shutdown()
        thread.join()
        engine.server_close()
