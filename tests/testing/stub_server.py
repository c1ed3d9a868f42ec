"""A small OpenAI-like server for the traffic client's own tests: `python stub_server.py PORT`.

Streams one event per token every TOKEN_S; `fail` in the prompt gives HTTP 400, `cut` closes the connection early.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN_S = 0.01


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        self._answer(200, b"")

    def do_POST(self) -> None:
        ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if ask["prompt"] == "fail":
            return self._answer(400, b"no such thing")
        if not ask["stream"]:
            return self._answer(200, json.dumps(self._event(ask, ask["max_tokens"], "length")).encode())
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for n in range(1, ask["max_tokens"] + 1):
            if ask["prompt"] == "cut" and n == 3:
                self.close_connection = True
                return None
            text = f"data: {json.dumps(self._event(ask, n, 'length' if n == ask['max_tokens'] else None))}\n\n".encode()
            self.wfile.write(text[:7])      # an event may arrive in two pieces
            self.wfile.flush()
            self.wfile.write(text[7:])
            self.wfile.flush()
            time.sleep(TOKEN_S)
        self.wfile.write(b"data: [DONE]\n\n")
        return None

    def _event(self, ask: dict[str, object], count: int, reason: str | None) -> dict[str, object]:
        return {
            "id": f"cmpl-{self.headers.get('X-Request-Id')}",
            "choices": [{"text": "x", "finish_reason": reason}],
            "usage": {"prompt_tokens": len(str(ask["prompt"])), "completion_tokens": count},
        }

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
