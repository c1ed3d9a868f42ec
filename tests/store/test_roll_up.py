"""What is kept of steps when their rows expire: every step once, whatever happens in between."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pellucid.core.table import rows as table
from pellucid.core.units import S_NS
from pellucid.store import roll_up
from pellucid.store.expire import EVERY_NS, Expiry, Retention
from pellucid.store.read import open_run
from pellucid.store.roll_up import MINUTE_NS, minutes
from pellucid.store.schema import STEP_MINUTES, STEPS
from pellucid.testing.build import build_run
from tests.store.writing import sealed, writer

ALL_GOES = Retention(retain_bytes=1)
TEXT = """
  process  step  start_ns     end_ns       running_count  waiting_count  waiting_kv_count  prefill_tokens  output_tokens
  a        1     59000000000  61000000000  4              0              0                 100             -
  a        2     61000000000  62000000000  8              3              3                 -               2
  a        3     62000000000  66000000000  6              1              0                 7               3
  b        1     61000000000  61500000000  1              0              0                 5               1"""
SUMMED = "SELECT sum(steps_count)::BIGINT AS steps, sum(output_tokens)::BIGINT AS tokens FROM step_minutes"


def recorded(folder: Path) -> Path:
    return build_run(folder, {"steps": table(TEXT)})


def counted(folder: Path) -> tuple[int, int, int]:
    """Steps by their rows, steps by the minute, output tokens of both."""
    run = open_run(folder)
    raw = run.one("SELECT count(*) AS steps, sum(output_tokens)::BIGINT AS tokens FROM steps")
    kept = run.one(SUMMED)
    return raw["steps"], kept["steps"] or 0, (raw["tokens"] or 0) + (kept["tokens"] or 0)


def test_a_minute_has_sums_counts_and_maxima_of_the_steps_that_began_in_it() -> None:
    steps = pa.Table.from_pylist([{n: row.get(n) for n in STEPS.names()} for row in table(TEXT)], STEPS.arrow())
    first, second, other = sorted(minutes(steps).to_pylist(), key=lambda r: (r["process"], r["minute_ns"]))
    assert (first["minute_ns"], second["minute_ns"], other["minute_ns"]) == (0, MINUTE_NS, MINUTE_NS)
    assert (second["start_ns"], second["end_ns"], second["steps_count"]) == (61 * S_NS, 66 * S_NS, 2)
    assert (second["busy_ns"], second["step_max_ns"]) == (5 * S_NS, 4 * S_NS)
    assert (second["running_requests_ns"], second["running_max_count"]) == ((8 + 24) * S_NS, 8)
    assert (second["waiting_ns"], second["waiting_kv_ns"], second["waiting_max_count"]) == (5 * S_NS, S_NS, 3)
    assert (second["prefill_tokens"], second["split_steps_count"], second["output_tokens"]) == (7, 1, 5)
    assert (first["waiting_ns"], first["output_tokens"], first["device_ns"]) == (0, None, None)
    assert (other["process"], other["steps_count"], other["output_tokens"]) == ("b", 1, 1)


def test_steps_that_expire_are_kept_by_the_minute(tmp_path: Path) -> None:
    expiry = Expiry(recorded(tmp_path), ALL_GOES)
    assert counted(tmp_path) == (4, 0, 6)
    expiry.tick(0)
    assert counted(tmp_path) == (0, 4, 6)
    assert open_run(tmp_path).damaged == []
    expiry.tick(EVERY_NS)
    assert counted(tmp_path) == (0, 4, 6)


KILLED = """
import os, signal, sys
from pathlib import Path
from pellucid.store.expire import Expiry, Retention
setattr(Path, sys.argv[2], lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL))
Expiry(Path(sys.argv[1]), Retention(retain_bytes=1)).tick(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["replace", "unlink"])
def test_a_kill_while_the_minute_is_written_or_before_the_steps_go_counts_each_step_once(
    tmp_path: Path, moment: str
) -> None:
    recorded(tmp_path)
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), moment], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "steps-000000.parquet").exists()
    assert (tmp_path / "step_minutes-000000.parquet").exists() == (moment == "unlink")
    assert counted(tmp_path) == (4, 0, 6)
    Expiry(tmp_path, ALL_GOES).tick(0)
    assert counted(tmp_path) == (0, 4, 6)


def test_a_later_recorder_gives_no_number_again_that_a_minute_has(tmp_path: Path) -> None:
    Expiry(recorded(tmp_path), ALL_GOES).tick(0)
    recorded(tmp_path)
    assert (tmp_path / "steps-000001.parquet").exists()
    assert counted(tmp_path) == (4, 4, 12)
    Expiry(tmp_path, ALL_GOES).tick(0)
    assert counted(tmp_path) == (0, 8, 12)


def test_without_room_for_the_minute_the_steps_stay_and_what_needs_none_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    recorded(tmp_path)
    sealed(tmp_path, range(3))
    with monkeypatch.context() as patch:
        patch.setattr(roll_up, "write_segment", full)
        Expiry(tmp_path, ALL_GOES).tick(0)
    assert counted(tmp_path) == (4, 0, 6)
    assert not list(tmp_path.glob("step_runs-*"))


def test_of_steps_that_do_not_read_nothing_is_kept(tmp_path: Path) -> None:
    path = recorded(tmp_path) / "steps-000000.parquet"
    spoilt = bytearray(path.read_bytes())
    spoilt[60] ^= 1
    path.write_bytes(spoilt)
    Expiry(tmp_path, ALL_GOES).tick(0)
    assert counted(tmp_path) == (0, 0, 0) and not path.exists()


def test_steps_of_an_older_schema_are_kept_as_far_as_they_go(tmp_path: Path) -> None:
    now = pq.read_table(recorded(tmp_path) / "steps-000000.parquet")
    pq.write_table(now.drop_columns(["waiting_kv_count", "device_ns"]), tmp_path / "steps-000001.parquet")
    Expiry(tmp_path, ALL_GOES).tick(0)
    kept = pq.read_table(tmp_path / "step_minutes-000001.parquet")
    assert kept.schema.names == list(STEP_MINUTES.names())
    assert sum(kept["steps_count"].to_pylist()) == 4 and kept["waiting_kv_ns"].null_count == len(kept)


def test_a_long_segment_is_summed_up_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_up, "BATCH_STEPS", 3)
    w = writer(tmp_path)
    for step in range(10):
        row = {"process": "a", "step": step, "start_ns": step * S_NS, "end_ns": step * S_NS + 1, "output_tokens": 2}
        w.append("steps", tuple(row.get(n) for n in STEPS.names()))
    w.close()
    Expiry(tmp_path, ALL_GOES).tick(0)
    assert counted(tmp_path) == (0, 10, 20)
