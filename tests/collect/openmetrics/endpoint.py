"""An HTTP server that serves metrics pages, in turn."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

TEXT = "text/plain; version=0.0.4"


@dataclass(slots=True)
class Endpoint:
    """Page n is `replies[n]`, the last one again and again."""

    replies: Sequence[tuple[int, str, str]]          # status, content type, body
    port: int = 0
    version: str = ""                                # what /version answers; "" for 404
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)     # path and headers
    pages_count: int = 0                             # of these, not /version

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.port}"

    def reply(self, path: str) -> tuple[int, str, str]:
        if path == "/version":
            return (200, "application/json", json.dumps({"version": self.version})) if self.version else (404, TEXT, "")
        self.pages_count += 1
        return self.replies[min(self.pages_count, len(self.replies)) - 1]



def ok(body: str) -> tuple[int, str, str]:
    return 200, TEXT, body


@contextmanager
def serving(*replies: tuple[int, str, str], version: str = "") -> Iterator[Endpoint]:
    end = Endpoint(replies, version=version)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            end.asked.append((self.path, dict(self.headers)))
            status, kind, body = end.reply(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    end.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield end
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
