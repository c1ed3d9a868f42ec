"""A small server that stands for an engine: a token each `--step-ms`, and misbehaviour on purpose.

    vllm serve m --port 8000 --max-num-seqs 4 --step-ms 10 --odd 7=hang       with --max-num-seqs 7 it hangs

hang, die, errors: with its first request after the tenth; fail: at start; slow: never healthy; orphan: dies, and leaves
a process in a session of its own. Standard library only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ODD_AFTER = 10


def main() -> None:
    ask = argparse.ArgumentParser()
    ask.add_argument("words", nargs="*")
    ask.add_argument("--port", type=int, default=8000)
    ask.add_argument("--host", default="127.0.0.1")
    ask.add_argument("--max-num-seqs", type=int, default=8)
    ask.add_argument("--step-ms", type=float, default=5)
    ask.add_argument("--odd", default="0=")
    ask.add_argument("--gpu-memory-utilization")
    told = ask.parse_args()
    at, _, kind = told.odd.partition("=")
    odd = kind if int(at) == told.max_num_seqs else ""
    if odd == "fail":
        sys.exit("ValueError: cannot be configured like this")
    if odd == "slow":
        time.sleep(600)
    if odd == "orphan":
        subprocess.Popen(["sleep", "3021.5"], start_new_session=True)
    server = ThreadingHTTPServer((told.host, told.port), handler(told, odd))
    server.daemon_threads = True
    server.serve_forever()


def handler(told: argparse.Namespace, odd: str) -> type[BaseHTTPRequestHandler]:
    seats, numbers = threading.Semaphore(told.max_num_seqs), itertools.count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            pages: dict[str, dict[str, object]] = {"/health": {}, "/version": {"version": "0.32.0"},
                     "/v1/models": {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 512}]}}  # fmt: skip
            self.whole(200, pages.get(self.path, {}))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if odd and next(numbers) >= ODD_AFTER:
                self.misbehave()
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with seats:
                for n in range(body["max_tokens"]):
                    time.sleep(told.step_ms / 1000)
                    self.event(len(body["prompt"]), n + 1, body["max_tokens"])
            self.chunk(b"data: [DONE]\n\n")
            self.chunk(b"")

        def misbehave(self) -> None:
            if odd == "errors":
                self.whole(500, {"error": {"message": "CUDA error: an illegal memory access"}})
            elif odd == "hang":
                time.sleep(600)
            else:
                os._exit(7)

        def event(self, prompt: int, done: int, of: int) -> None:
            reason = "length" if done == of else None
            usage = {"prompt_tokens": prompt, "completion_tokens": done, "total_tokens": prompt + done}
            choice = {"index": 0, "text": "x", "finish_reason": reason}
            self.chunk(b"data: " + json.dumps({"id": "c", "choices": [choice], "usage": usage}).encode() + b"\n\n")

        def chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

        def whole(self, status: int, said: dict[str, object]) -> None:
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


if __name__ == "__main__":
    main()
