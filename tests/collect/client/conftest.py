"""The stub server, one for a module."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.testing.engine import Engine, Launch, free_port, start, stop, wait_ready

STUB = Path(__file__).parent / "stub_server.py"


def serve(log: Path, *more: str) -> Engine:
    port = free_port()
    engine = start(Launch((sys.executable, str(STUB), str(port), *more), f"http://127.0.0.1:{port}", log))
    wait_ready(engine, 30)
    return engine


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    engine = serve(tmp_path_factory.mktemp("stub") / "log")
    yield engine.url
    stop(engine)
