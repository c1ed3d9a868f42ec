"""A small OpenAI-like server for the player's own tests: `python stub_server.py PORT [TOKEN_S]`.

Streams one event per token every TOKEN_S. What it does instead, the model's name says:

    400 · 429 · 503     that status          cut     closes amid the answer      plain   counts at the end only
    hang                never answers        stall   stops amid the answer       odd     events that are no JSON
    error               an error event       die     the server ends             reset   resets the connection amid it
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import sys
from typing import Any

NEVER_S = 3600
STATUSES = ("400", "429", "503")
KINDS = ("m", *STATUSES, "hang", "error", "cut", "stall", "die", "plain", "odd", "reset")
AMID = 3           # output events


class Server:
    def __init__(self, token_s: float) -> None:
        self.token_s = token_s
        self.open_count = 0                  # connections

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_count += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = dict(line.split(": ", 1) for line in head.lower().split("\r\n")[1:] if line)
            if head.startswith("GET"):
                cards = [{"id": name, "owned_by": "somebody"} for name in KINDS]
                said = {"data": cards, "open_count": self.open_count - 1}
                return self._answer(writer, 200, json.dumps(said).encode())
            ask = json.loads(await reader.readexactly(int(lines["content-length"])))
            gone = asyncio.create_task(reader.read())
            answering = asyncio.create_task(self.answer(ask, lines.get("x-request-id", ""), writer))
            await asyncio.wait([gone, answering], return_when=asyncio.FIRST_COMPLETED)
            for task in (gone, answering):
                task.cancel()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open_count -= 1
            writer.close()
        return None

    async def answer(self, ask: dict[str, Any], name: str, writer: asyncio.StreamWriter) -> None:
        kind = ask["model"]
        if kind in STATUSES:
            return self._answer(writer, int(kind), b"no such thing")
        if kind == "die":
            os._exit(1)
        if kind == "hang":
            await asyncio.sleep(NEVER_S)
        if not ask["stream"]:
            return self._answer(writer, 200, event(ask, name, ask["max_tokens"]))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for n in range(1, ask["max_tokens"] + 1):
            if n == AMID and await self._trouble(kind, writer):
                return None
            said = b"data: " + (b"{" if kind == "odd" else event(ask, name, n)) + b"\n\n"
            for piece in (said[:7], said[7:]):      # an event may arrive in two pieces
                writer.write(chunk(piece))
                await writer.drain()
            await asyncio.sleep(self.token_s)
        writer.write((chunk(b"data: " + usage(ask, ask["max_tokens"]) + b"\n\n") if kind == "plain" else b"")
                     + chunk(b"data: [DONE]\n\n") + chunk(b""))  # fmt: skip
        await writer.drain()
        return None

    async def _trouble(self, kind: str, writer: asyncio.StreamWriter) -> bool:
        """Whether the answer stops here."""
        if kind == "stall":
            await asyncio.sleep(NEVER_S)
        if kind == "error":
            writer.write(chunk(b'data: {"error": {"message": "out of memory"}}\n\n') + chunk(b""))
        if kind == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return kind in ("cut", "error", "reset")

    def _answer(self, writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
        writer.write(f"HTTP/1.1 {status} So\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


def event(ask: dict[str, Any], name: str, count: int) -> bytes:
    said: dict[str, Any] = {
        "id": f"cmpl-{name}",
        "choices": [{"text": "x", "finish_reason": "length" if count == ask["max_tokens"] else None}],
    }
    if ask["model"] != "plain":
        said |= json.loads(usage(ask, count))
    return json.dumps(said).encode()


def usage(ask: dict[str, Any], count: int) -> bytes:
    return json.dumps({"usage": {"prompt_tokens": len(ask["prompt"]), "completion_tokens": count}}).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def main(port: int, token_s: float) -> None:
    server = await asyncio.start_server(Server(token_s).serve, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.01))
