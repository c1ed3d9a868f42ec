"""The list of recordings and their states."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.clock import monotonic_ns
from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.run import RunInfo, write_info
from pellucid.core.table import rows as table
from pellucid.store.expire import Expiry, Retention
from pellucid.store.write import Limits, RunWriter
from pellucid.testing.build import append_rows, build_run
from pellucid.verbs.runs import run_folder, runs, summary

STEPS = {"steps": table("""process  step  start_ns    end_ns
                           core-1   1     1000000000  2000000000
                           core-1   2     2000000000  61000000000""")}
SOURCES = {"sources": table("""process     engine  engine_version  model
                               frontend-1  -       -               -
                               core-1      vllm    0.32.0          tiny""")}


def test_a_run_is_summed_up_in_a_row(tmp_path: Path) -> None:
    row = summary(build_run(tmp_path / "r1", {**STEPS, **SOURCES}))
    assert {k: row[k] for k in ("run_id", "engine", "engine_version", "model", "state")} == {
        "run_id": "r1", "engine": "vllm", "engine_version": "0.32.0", "model": "tiny", "state": "complete",
    }  # fmt: skip
    assert (row["duration_ns"], row["steps_count"], row["requests_count"]) == (60_000_000_000, 2, None)
    assert row["size_bytes"] == sum(p.stat().st_size for p in (tmp_path / "r1").glob("*.parquet"))


def test_an_open_run_counts_its_tails_and_is_being_recorded(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "r1", Limits(), monotonic_ns)
    append_rows(writer, {**STEPS, **SOURCES})
    writer.flush()
    row = summary(tmp_path / "r1")
    assert (row["state"], row["steps_count"], row["model"]) == ("recording", 2, "tiny")
    assert row["duration_ns"] == 60_000_000_000
    writer.close()
    assert summary(tmp_path / "r1")["state"] == "complete"


def test_a_tail_without_a_recorder_is_an_interrupted_run(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "r1", Limits(), monotonic_ns)
    append_rows(writer, STEPS)
    writer.flush()
    tail = (tmp_path / "r1" / "steps-000000.arrows").read_bytes()
    writer.close()
    (tmp_path / "r1" / "steps-000000.parquet").unlink()
    (tmp_path / "r1" / "steps-000000.arrows").write_bytes(tail)
    row = summary(tmp_path / "r1")
    assert (row["state"], row["steps_count"]) == ("interrupted", 2)


def test_a_damaged_segment_makes_the_run_damaged_and_the_rest_readable(tmp_path: Path) -> None:
    folder = build_run(tmp_path / "r1", STEPS)
    (folder / "host-000000.parquet").write_bytes(b"PAR1 cut")
    row = summary(folder)
    assert (row["state"], row["steps_count"]) == ("damaged", 2)


def test_a_count_that_does_not_read_is_not_seen_rather_than_zero(tmp_path: Path) -> None:
    folder = build_run(tmp_path / "r1", STEPS)
    (folder / "steps-000000.parquet").write_bytes(b"PAR1 cut")
    row = summary(folder)
    assert (row["state"], row["steps_count"], row["requests_count"]) == ("damaged", None, None)


def test_an_empty_run_has_no_duration_rather_than_none_at_all(tmp_path: Path) -> None:
    row = summary(build_run(tmp_path / "r1", {}))
    assert (row["state"], row["duration_ns"], row["engine"], row["steps_count"]) == ("empty", None, None, None)


def test_runs_list_newest_first_with_units(tmp_path: Path) -> None:
    for name, created_ns in (("r1", 10), ("r2", 30), ("r3", 20)):
        write_info(build_run(tmp_path / "runs" / name, {}), RunInfo(name, created_ns, ["serve", name], ""))
    found = runs(tmp_path).json()
    assert [r["run_id"] for r in found["rows"]] == ["r2", "r3", "r1"]
    assert found["units"]["duration_ns"] == "ns"
    assert found["rows"][0]["command"] == "serve r2"


def test_no_recordings_is_an_empty_list(tmp_path: Path) -> None:
    assert runs(tmp_path).json() == {"rows": [], "units": {}}


def test_a_run_that_is_not_there_is_refused_and_no_run_at_all_cannot_answer(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswer, match="no recording"):
        run_folder(tmp_path, None)
    with pytest.raises(AskedWrongly, match="no run has that id"):
        run_folder(tmp_path, "2026")


def test_a_folder_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(AskedWrongly, match="is no recording"):
        run_folder(tmp_path, str(tmp_path))
    build_run(tmp_path / "r1", {})
    assert run_folder(tmp_path, str(tmp_path / "r1")) == tmp_path / "r1"


def test_steps_that_have_expired_count_and_are_told_apart(tmp_path: Path) -> None:
    folder = build_run(tmp_path / "r1", STEPS)
    before = summary(folder)
    Expiry(folder, Retention(retain_bytes=1)).tick(0)
    after = summary(folder)
    assert not list(folder.glob("steps-*"))
    assert [(r["steps_count"], r["duration_ns"], r["expired_steps_count"]) for r in (before, after)] == [
        (2, 60_000_000_000, 0), (2, 60_000_000_000, 2)]  # fmt: skip


def test_a_run_with_the_recorders_own_facts_alone_is_empty(tmp_path: Path) -> None:
    facts = table("""process   fact         state  reason  collect
                     recorder  device.nvml  blind  none    -""")
    assert summary(build_run(tmp_path / "r1", {"facts": facts}))["state"] == "empty"
