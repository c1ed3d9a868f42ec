"""What an engine's publisher does on the wire, for tests: PUB with numbered batches, ROUTER that replays them.

    with Publisher() as p:
        p.send(batch([stored(1, 2)]))       goes out
        p.keep(batch([removed(1)]))         is numbered and kept for replay; nobody gets it: a gap
"""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType
from typing import Any

import msgspec
import zmq

T0_NS = 1_796_000_000_000_000_000
END = b"\xff" * 8


def stored(*hashes: int | bytes, size: int = 16, **more: Any) -> dict[str, Any]:
    tokens = list(range(70_000, 70_000 + size * len(hashes)))
    return {"type": "BlockStored", "block_hashes": list(hashes), "parent_block_hash": None, "token_ids": tokens,
            "block_size": size, "lora_id": None, "medium": "GPU", "lora_name": None, **more}  # fmt: skip


def removed(*hashes: int | bytes, **more: Any) -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": list(hashes), "medium": "GPU", **more}


CLEARED = {"type": "AllBlocksCleared"}


def batch(events: list[Any], at_s: float = 0.0, rank: int | None = 0) -> bytes:
    """A payload published `at_s` after T0."""
    return msgspec.msgpack.encode([T0_NS / 1e9 + at_s, events, rank])


def frames(number: int, payload: bytes) -> list[bytes]:
    return [b"", number.to_bytes(8, "big"), payload]


class Publisher:
    def __init__(self, buffer: int = 10_000, replay: bool = True) -> None:
        self.context = zmq.Context()
        self.pub = self.context.socket(zmq.XPUB)     # a PUB that sees who subscribes
        self.pub.setsockopt(zmq.SNDHWM, 100_000)
        self.events = f"tcp://127.0.0.1:{self.pub.bind_to_random_port('tcp://127.0.0.1')}"
        self.buffer: deque[tuple[int, bytes]] = deque(maxlen=buffer)
        self.next = 0
        self.router = self.context.socket(zmq.ROUTER)
        self.replay = f"tcp://127.0.0.1:{self.router.bind_to_random_port('tcp://127.0.0.1')}" if replay else None
        self.asked: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Publisher:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        for socket in (self.pub, self.router):
            socket.close(linger=0)
        self.context.term()

    def wait_for_subscriber(self) -> None:
        assert self.pub.poll(5000) and self.pub.recv()[:1] == b"\x01"

    def keep(self, payload: bytes) -> int:
        number, self.next = self.next, self.next + 1
        self.buffer.append((number, payload))
        return number

    def send(self, payload: bytes) -> None:
        self.pub.send_multipart(frames(self.keep(payload), payload))

    def send_raw(self, *raw: bytes) -> None:
        self.pub.send_multipart(list(raw))

    def _serve(self) -> None:
        while not self._stop.is_set():
            if self.router.poll(10):
                client, _, first = self.router.recv_multipart()
                self.asked.append(int.from_bytes(first, "big"))
                for number, payload in list(self.buffer):
                    if number >= self.asked[-1]:
                        self.router.send_multipart([client, b"", *frames(number, payload)])
                self.router.send_multipart([client, b"", b"", END, b""])
