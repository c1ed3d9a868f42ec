from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pellucid.catalog.servers.dialects import PLAIN
from pellucid.testing.engine import EngineDied, Launch, free_port, members, start, stop, wait_ready
from pellucid.testing.traffic import TOKENS, Ask, encoded, send

pytestmark = pytest.mark.slow

STUB = Path(__file__).parents[1] / "collect/client/stub_server.py"


def launch(tmp: Path, *command: str, port: int = 0) -> Launch:
    return Launch((sys.executable, *command), f"http://127.0.0.1:{port}", tmp / "log")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    server = start(launch(tmp_path_factory.mktemp("stub"), str(STUB), str(port), port=port))
    wait_ready(server, 30)
    yield server.url
    stop(server)


def test_what_tests_send_is_counted_by_their_engine_in_every_event(url: str) -> None:
    (reply,) = send(url, "m", [Ask(0, "hello", 5)])
    assert [a.output_tokens for a in reply.arrivals] == [1, 2, 3, 4, 5]


def test_token_ids_go_out_in_the_words_of_their_own_path() -> None:
    sent = json.loads(encoded("m", Ask(0, [5, 6], 3, path=TOKENS, stream=False, extra={"temperature": 0}), PLAIN))
    assert (sent["token_ids"], sent["sampling_params"]["max_tokens"], sent["sampling_params"]["temperature"]) == (
        [5, 6], 3, 0,
    )  # fmt: skip


def test_an_engine_that_dies_at_start_is_reported_with_its_last_words(tmp_path: Path) -> None:
    engine = start(launch(tmp_path, "-c", "import sys; print('no memory'); sys.exit(3)"))
    with pytest.raises(EngineDied, match=r"(?s)code 3.*no memory"):
        wait_ready(engine, 30)
    assert stop(engine) == []


def test_an_engine_that_never_serves_is_given_up(tmp_path: Path) -> None:
    engine = start(launch(tmp_path, "-c", "import time; time.sleep(60)", port=free_port()))
    with pytest.raises(EngineDied, match="does not serve after"):
        wait_ready(engine, 0.5)
    assert stop(engine, grace_s=5) == []      # Python ends on SIGINT by itself


def test_processes_left_behind_are_killed_and_named(tmp_path: Path) -> None:
    ignores = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    stubborn = f"import signal, time; {ignores}; print('on', flush=True); time.sleep(60)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {stubborn!r}]); time.sleep(60)"
    engine = start(launch(tmp_path, "-c", parent))
    while "on" not in engine.launch.log.read_text():
        assert engine.process.poll() is None
    assert len(members(engine)) == 2
    killed = stop(engine, grace_s=0.5)
    assert ["signal.SIG_IGN" in m.command for m in killed] == [True]
    assert members(engine) == []
