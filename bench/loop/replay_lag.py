"""How late the player is to its own schedule, at rising rates, and beside another client of the same server.

    .venv/bin/python -m bench.loop.replay_lag [--seconds 6] [--rounds 2] [--alone]

A server of a few lines, in a process of its own, answers each request with 8 events, 10 ms apart, and notes when each
request was there. Both clients send requests of 200 tokens at constant gaps, in turn (ours, theirs, theirs, ours). How
late a request was is taken from the server's notes: its time, less n gaps, less the same of the punctual one of all.
So both are judged by one clock that is neither's. The other client is the benchmark that comes with the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pellucid.collect.client.ask import Ask
from pellucid.collect.client.measures import client_bound
from pellucid.collect.client.play import Bounds, Played, Target, play
from pellucid.testing.engine import Launch, free_port, start, stop, wait_ready
from tools import real_engine

RATES = (50, 200, 500, 1000)
PROMPT, OUTPUT, GAP_S = 200, 8, 0.01
MODEL = "m"
EVENT = (b'data: {"id":"x","choices":[{"index":0,"text":" a","finish_reason":null}],'
         b'"usage":{"prompt_tokens":200,"completion_tokens":%d}}\n\n')  # fmt: skip


class Server:
    """Answers the same to everybody."""

    def __init__(self) -> None:
        self.times_ns: list[int] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                now_ns = time.monotonic_ns()
                if head.startswith(b"GET"):
                    self._answer(writer, json.dumps({"data": [{"id": MODEL}], "times_ns": self.times_ns}).encode())
                    continue
                self.times_ns.append(now_ns)
                sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
                await reader.readexactly(int(sizes[0].split(b":")[1]))
                await self._stream(writer)
                if b"connection: close" in head.lower():
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for n in range(1, OUTPUT + 1):
            said = EVENT % n
            writer.write(b"%x\r\n%b\r\n" % (len(said), said))
            await asyncio.sleep(GAP_S)
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def _answer(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)


async def forever(port: int) -> None:
    server = await asyncio.start_server(Server().serve, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def seen_ns(url: str) -> list[int]:
    with urllib.request.urlopen(url, timeout=30) as reply:
        times: list[int] = json.load(reply)["times_ns"]
        return times


def late_ms(times_ns: Sequence[int], rate: float) -> tuple[float, float, float]:
    """p50, p99 and most, of requests that should have come at constant gaps."""
    behind = np.array(sorted(times_ns), dtype=np.float64) - np.arange(len(times_ns)) * 1e9 / rate
    late = (behind - behind.min()) / 1e6
    return float(np.quantile(late, 0.5)), float(np.quantile(late, 0.99)), float(late.max())


def ours(url: str, rate: float, count: int) -> Played:
    asks = [Ask(n / rate, [5] * PROMPT, OUTPUT) for n in range(count)]
    return play(Target(url, MODEL), asks, Bounds(request_s=60))


def theirs(url: str, rate: float, count: int, folder: Path) -> None:
    command = [
        str(real_engine.PYTHON), "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai",
        "--base-url", url, "--endpoint", "/v1/completions", "--model", MODEL, "--tokenizer",
        str(real_engine.MODELS / "tiny-dense"), "--dataset-name", "random", "--random-input-len", str(PROMPT),
        "--random-output-len", str(OUTPUT), "--num-prompts", str(count), "--request-rate", str(rate),
        "--burstiness", "inf", "--disable-tqdm",
    ]  # fmt: skip
    env = {**os.environ, **real_engine.ENVIRONMENT, **real_engine.name_engine(folder)}
    subprocess.run(command, env=env, cwd=real_engine.ROOT, check=True, capture_output=True, timeout=300)


def row(name: str, rate: float, times_ns: Sequence[int], more: str = "") -> None:
    p50, p99, most = late_ms(times_ns, rate)
    print(f"{rate:6.0f}/s  {name:6}  late p50 {p50:7.1f} ms  p99 {p99:7.1f} ms  most {most:7.1f} ms{more}", flush=True)


def turn(url: str, rate: float, count: int, folder: Path | None) -> None:
    """One client's turn; theirs where there is a folder. It may send some before, to see who is there."""
    before, more = len(seen_ns(url)), ""
    if folder is not None:
        theirs(url, rate, count, folder)
    else:
        played = ours(url, rate, count)
        lag, stall = (float(np.quantile(v, 0.99)) / 1e6 for v in (lags_ns(played), played.stalls_ns))
        more = f"  itself: lag p99 {lag:.1f} ms, loop away p99 {stall:.1f} ms, {played.busy_ratio:.0%} of a core"
        more += "; in the way" if client_bound(played) else ""
    times = seen_ns(url)[before:]
    if len(times) < count:
        raise RuntimeError(f"the server saw {len(times)} of {count} requests")
    row("ours" if folder is None else "theirs", rate, times[-count:], more)


def lags_ns(played: Played) -> list[int]:
    return [r.lag_ns for r in played.replies]


def compare(url: str, asked: argparse.Namespace, folder: Path) -> None:
    for rate in RATES:
        for n in range(asked.rounds):
            clients = [None] if asked.alone else [None, folder] if n % 2 == 0 else [folder, None]
            for client in clients:
                turn(url, rate, int(rate * asked.seconds), client)


def main() -> int:
    ask = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    ask.add_argument("--seconds", type=float, default=6.0, help="of each turn")
    ask.add_argument("--rounds", type=int, default=2)
    ask.add_argument("--alone", action="store_true", help="no other client")
    ask.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    asked = ask.parse_args()
    if asked.serve:
        asyncio.run(forever(asked.serve))
    where = f"{platform.machine()}, {os.cpu_count()} cores, python {platform.python_version()}"
    print(f"conditions: {where}, load {os.getloadavg()[0]:.1f}; server in a process of its own, {PROMPT} + {OUTPUT} "
          f"tokens, events {GAP_S * 1e3:.0f} ms apart, {asked.seconds:.0f} s each")
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = (sys.executable, "-m", "bench.loop.replay_lag", "--serve", str(port))
        server = start(Launch(command, real_engine.url(port), Path(folder) / "log", cwd=real_engine.ROOT))
        try:
            wait_ready(server, 30)
            compare(server.url, asked, Path(folder))
        finally:
            stop(server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
