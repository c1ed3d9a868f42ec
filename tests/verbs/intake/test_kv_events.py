"""Recording an engine's KV events from the command line, before a publisher that does what an engine's does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.store.read import open_run
from pellucid.surface.cli import main
from pellucid.verbs.intake.attach import Attach, attach
from pellucid.verbs.intake.kv_events import endpoints, follow_kv_events
from pellucid.verbs.record import RecordInto
from tests.collect.kv_events.publisher import Publisher, batch, removed, stored
from tests.collect.openmetrics.endpoint import ok, serving


def test_events_become_a_run(tmp_path: Path) -> None:
    with Publisher() as p:
        assert p.replay is not None
        where = ["--kv-events", p.events, "--kv-replay", p.replay]
        command = [sys.executable, "-m", "pellucid.surface.cli", "record", *where]
        environ = {**os.environ, "PELLUCID_HOME": str(tmp_path)}
        recorder = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True)
        assert recorder.stderr is not None and p.events in recorder.stderr.readline()
        p.wait_for_subscriber()
        p.send(batch([stored(1, 2)]))
        p.keep(batch([removed(1)], 1))
        p.send(batch([stored(3)], 2))
        while not p.asked:
            time.sleep(0.001)
        recorder.send_signal(signal.SIGINT)
        _, err = recorder.communicate(timeout=30)
    assert recorder.returncode == 0
    assert "3 messages, 3 blocks stored, 1 removed; 0 messages lost" in err
    (folder,) = (tmp_path / "runs").iterdir()
    rows = open_run(folder).rows("SELECT removed_reason AS r FROM kv_residency ORDER BY cached_ns, r")
    assert [row["r"] for row in rows] == ["evicted", None, None]


def test_a_replay_address_belongs_to_a_publisher() -> None:
    assert [(e.events, e.replay) for e in endpoints(["a", "b"], ["c", "d"])] == [("a", "c"), ("b", "d")]
    assert [e.replay for e in endpoints(["a", "b"])] == [None, None]
    with pytest.raises(AskedWrongly, match="2 --kv-events and 1 --kv-replay"):
        endpoints(["a", "b"], ["c"])


def test_nothing_to_hear_leaves_a_run_that_says_so(tmp_path: Path) -> None:
    seen = follow_kv_events(endpoints(["tcp://127.0.0.1:9"]), RecordInto(tmp_path), lambda: True)
    (fact,) = open_run(seen.folder).rows("SELECT fact, state FROM facts")
    assert (seen.messages_count, fact) == (0, {"fact": "kv.events", "state": "blind"})


@pytest.mark.parametrize("words", [[], ["/tmp", "--kv-events", "tcp://h:1"], ["/tmp", "--kv-replay", "tcp://h:1"]])
def test_the_probe_or_its_absence_is_recorded(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", *words]) == 2
    assert "not both" in capsys.readouterr().err


def test_events_are_recorded_beside_a_metrics_page(tmp_path: Path) -> None:
    with Publisher() as p, serving(ok("vllm:num_requests_running 1\n")) as page:
        sent = list[int]()

        def stop() -> bool:
            """Sends when the subscriber is there; lets it have a few looks at what came."""
            if not sent and p.pub.poll(0):
                p.send(batch([stored(1, 2), removed(1)]))
            sent.extend([1] * bool(p.next))
            return len(sent) > 20

        how = Attach(RecordInto(tmp_path), 20_000_000, kv=endpoints([p.events], [p.replay or ""]))
        done = attach(page.name, how, stop)
    run = open_run(done.folder)
    lives = run.rows("SELECT process, removed_reason AS r FROM kv_residency ORDER BY r")
    assert lives == [{"process": "kv_events-0", "r": "evicted"}, {"process": "kv_events-0", "r": None}]
    assert run.one("SELECT count(*) > 0 AS seen FROM metrics") == {"seen": True}


def test_an_address_that_is_none_leaves_no_run(tmp_path: Path) -> None:
    with serving(ok("vllm:num_requests_running 1\n")) as page, pytest.raises(AskedWrongly, match="tcp://host:5557"):
        attach(page.name, Attach(RecordInto(tmp_path), kv=endpoints(["nonsense"])), lambda: True)
    assert list((tmp_path / "runs").iterdir()) == []
