"""Files become a run; what they are is seen from what is in them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.store.read import open_run
from pellucid.surface.cli import main
from pellucid.verbs.intake.load import detect, load, load_logs
from pellucid.verbs.record import RecordInto
from pellucid.verbs.why import why
from tests.collect.kv_events.publisher import batch, frames, removed, stored
from tests.conftest import shared_data

LOG = "(EngineCore pid=9) INFO 11-29 12:00:00 [kv.py:1] GPU KV cache size: 1,024 tokens\n"


def message(number: int, payload: bytes) -> bytes:
    parts = frames(number, payload)
    head = bytes(8) + len(parts).to_bytes(4, "little")
    return head + b"".join(len(p).to_bytes(4, "little") + p for p in parts)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "engine.txt").write_text(LOG)
    return tmp_path / "engine.txt"


def test_a_log_is_known_packed_or_not_and_by_no_name(log: Path, tmp_path: Path) -> None:
    packed = tmp_path / "x"
    packed.write_bytes(gzip.compress(LOG.encode()))
    assert {detect(log).name, detect(packed).name} == {"log"}


REFUSED = r"is empty|Known: kv event capture, kv event, kernel trace, log|is JSON, but no trace"


@pytest.mark.parametrize(
    "content", [b"", b"\x00\x01\x02", b"a text of\nno log\n", b"{}", b"# TYPE x counter\nx 1\n", b"x gauge\ny\n"]
)
def test_what_is_nothing_we_know_is_refused_before_a_run_is_made(tmp_path: Path, content: bytes, log: Path) -> None:
    (tmp_path / "odd").write_bytes(content)
    with pytest.raises(AskedWrongly, match=REFUSED):
        load([log, tmp_path / "odd"], RecordInto(tmp_path / "home"))
    assert not (tmp_path / "home" / "runs").exists()


@pytest.mark.parametrize("name", ["gone.log", "."])
def test_a_file_that_cannot_be_read_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(AskedWrongly, match="cannot read"):
        load([tmp_path / name], RecordInto(tmp_path))


def test_several_files_become_one_run(log: Path, tmp_path: Path) -> None:
    saved = tmp_path / "events.bin"
    saved.write_bytes(message(0, batch([stored(1, 2)])) + message(1, batch([removed(1)], 2)) + b"the rest is cut")
    loaded = load([log, saved], RecordInto(tmp_path / "home"))
    assert [(r["file"], r["format"], r["lines_count"]) for r in loaded.rows] == [
        ("engine.txt", "log", 1), ("events.bin", "kv event capture", None),
    ]  # fmt: skip
    run = open_run(loaded.folder)
    assert run.rows("SELECT kv_cache_tokens AS n, process FROM log_events") == [{"n": 1024, "process": "EngineCore-9"}]
    lives = run.rows("SELECT removed_reason AS r, process FROM kv_residency ORDER BY r")
    assert lives == [{"r": "evicted", "process": "events.bin"}, {"r": None, "process": "events.bin"}]
    assert [r["process"] for r in run.rows("SELECT process FROM sources")] == ["engine.txt", "events.bin"]


def test_logs_alone_are_wanted_where_logs_are_asked_for(log: Path, tmp_path: Path) -> None:
    saved = tmp_path / "events.bin"
    saved.write_bytes(message(0, batch([stored(1)])))
    assert load_logs([log], RecordInto(tmp_path / "home")).rows[0]["engine"] == "vllm"
    with pytest.raises(AskedWrongly, match="no engine log but a kv event capture"):
        load_logs([saved], RecordInto(tmp_path / "home"))


def test_real_events_load_and_their_hashes_are_keyed(tmp_path: Path) -> None:
    names = ("h200_vllm024/kv_events_head.bin.gz", "kv_events/kv_event_base.json")
    loaded = load([shared_data(n) for n in names], RecordInto(tmp_path))
    assert [r["kinds"]["stored"] for r in loaded.rows] == [12_424, 25]
    event = json.loads(shared_data(names[1]).read_text())
    hashes = open_run(loaded.folder).rows("SELECT block_hash AS h FROM kv_residency WHERE process LIKE '%.json'")
    assert len(hashes) == 25 and not {r["h"] for r in hashes} & {f"{h:016x}" for h in event["block_hashes"]}


def test_pages_before_and_after_a_load_say_what_its_client_counted(tmp_path: Path) -> None:
    loaded = load([shared_data("prometheus/dsv4_b1_gb300/c4_prom.json.gz")], RecordInto(tmp_path))
    client = json.loads(shared_data("perf_runs/dsv4_b1_gb300/conc4.json").read_text())
    assert [(r["format"], r["engine"], r["model"], r["kinds"]["damaged"]) for r in loaded.rows] == [
        ("pair of metrics pages", "vllm", "dsv4", 0)]  # fmt: skip
    run = open_run(loaded.folder)
    grown = {r["metric"]: r["n"] for r in run.rows(
        "SELECT metric, sum(value)::BIGINT AS n FROM metrics WHERE kind = 'counter' GROUP BY metric")}  # fmt: skip
    assert (grown["finished_count"], grown["prompt_tokens"], grown["output_tokens"]) == (
        client["completed_turns"], client["input_tokens_total"], client["output_tokens_total"])  # fmt: skip
    times = "SELECT DISTINCT start_ns IS NULL AS s, end_ns IS NULL AS e FROM metrics ORDER BY e"
    assert run.rows(times) == [{"s": True, "e": False}, {"s": True, "e": True}]


def test_a_pair_that_was_cut_loads_with_what_is_whole(tmp_path: Path) -> None:
    packed = shared_data("prometheus/dsv4_b1_gb300/c4_prom.json.gz").read_bytes()
    (tmp_path / "cut").write_bytes(packed[: len(packed) * 3 // 4])
    loaded = load([tmp_path / "cut"], RecordInto(tmp_path / "home"))
    assert loaded.rows[0]["kinds"]["damaged"] == 1
    assert 0 < loaded.rows[0]["kinds"]["mapped"] < 2 * 445


def test_a_list_of_names_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match=r"a list of 36 metric names without their values\. Try: curl"):
        load([shared_data("prometheus/vllm_metric_families_v0.26.0.txt")], RecordInto(tmp_path))


def test_the_command_prints_what_it_found(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PELLUCID_HOME", str(tmp_path / "home"))
    assert main(["load", str(log)]) == 0
    assert capsys.readouterr().out == "engine.txt: log, 1 lines, vllm → 1 kv_cache_size\n"
    assert main(["load", str(log), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"][0]["kinds"], said["units"]["lines_count"]) == ({"kv_cache_size": 1}, "count")
    assert main(["load", str(tmp_path / "gone")]) == 2


def test_a_trace_that_lost_its_kernels_is_refused_and_not_taken_for_one_of_a_cpu(tmp_path: Path) -> None:
    whole = gzip.decompress(shared_data("h200_vllm024/qwen3-30b-a3b_prefill_4x8000.pt.trace.json.gz").read_bytes())
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole[: len(whole) // 10])
    with pytest.raises(AskedWrongly, match=r"holds no kernels: .*Was it cut"):
        load([cut], RecordInto(tmp_path / "home"))


def test_what_is_not_whole_in_a_trace_is_said_where_it_is_loaded_and_where_it_is_judged(tmp_path: Path) -> None:
    packed = shared_data("h200_vllm024/qwen3-30b-a3b_prefill_4x8000.pt.trace.json.gz").read_bytes()
    damaged = tmp_path / "damaged.json.gz"
    damaged.write_bytes(packed[: len(packed) * 95 // 100])
    loaded = load([damaged], RecordInto(tmp_path / "home"))
    assert "ends early" in " ".join(loaded.rows[0]["damage"])
    assert [n for n in why(loaded.folder)["notes"] if "damaged.json.gz is not whole" in n]


def test_a_trace_of_copies_is_not_called_healthy(tmp_path: Path) -> None:
    answer = why(load([shared_data("nsys_ncu/h100_2gpu_1s.sqlite")], RecordInto(tmp_path)).folder)
    assert (answer["healthy"], "copies took" in answer["verdict"]) == (False, True)


def test_of_several_files_those_before_a_bad_one_are_named(tmp_path: Path, log: Path) -> None:
    trace = tmp_path / "t.json"
    trace.write_text('{"schemaVersion": 1, "traceEvents": []}')
    with pytest.raises(AskedWrongly, match="The 1 before it are in run"):
        load([log, trace], RecordInto(tmp_path / "home"))


@pytest.mark.parametrize("name", ["na\udcff.json", "red\x1b[31m.json"])
def test_a_name_that_cannot_be_printed_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(AskedWrongly, match="can be printed"):
        load([tmp_path / name], RecordInto(tmp_path / "home"))
