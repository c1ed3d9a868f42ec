from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pellucid.core.table import rows as table
from pellucid.diagnose.registry import all_rules
from pellucid.store.expire import Expiry, Retention
from pellucid.verbs.why import why
from tests.diagnose.engine_model import Rows, Shape, serve, write_run
from tests.diagnose.test_scenarios import stream


@cache
def _capped() -> Rows:
    return serve(Shape(cap=4), stream(150, 250, 60, 60))


def capped() -> Rows:
    """Rows of its own for each test: some change them."""
    return {name: [dict(row) for row in rows] for name, rows in _capped().items()}


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return why(write_run(tmp_path_factory.mktemp("capped"), capped()))


def test_the_answer_is_json(answer: dict[str, Any]) -> None:
    assert json.loads(json.dumps(answer)) == answer


def test_a_finding_has_everything_a_reader_needs(answer: dict[str, Any]) -> None:
    (finding,) = answer["findings"]
    keys = {"id", "evidence", "units", "moves", "gain", "falsified_by", "persistence", "says", "symptoms"}
    assert set(finding) >= keys
    assert finding["persistence"]["says"] == "in 5 of 5 windows"
    assert set(finding["units"]) == set(finding["evidence"])
    assert finding["units"]["busy_ns"] == "ns"


def test_the_move_is_the_exact_flag_beside_the_present_value(answer: dict[str, Any]) -> None:
    (move,) = answer["findings"][0]["moves"]
    assert (move["setting"], move["current"], move["change"]) == ("--max-num-seqs 42", 4, "restart")


def test_the_evidence_row_can_be_recomputed(answer: dict[str, Any]) -> None:
    steps = capped()["steps"]
    busy_ns = sum(s["end_ns"] - s["start_ns"] for s in steps)
    capped_ns = sum(s["end_ns"] - s["start_ns"] for s in steps if s["waiting_sequence_cap_count"] > 0)
    evidence = answer["findings"][0]["evidence"]
    assert (evidence["busy_ns"], evidence["capped_ns"]) == (busy_ns, capped_ns)


def test_a_healthy_engine_has_nothing_to_fix(tmp_path: Path) -> None:
    answer = why(write_run(tmp_path, serve(Shape(), stream(60, 500, 80, 40))))
    assert answer["verdict"].startswith("Nothing to fix: 60 requests")
    assert (answer["findings"], answer["healthy"]) == ([], True)
    assert answer["load"]["requests_count"] == 60


def test_waiting_that_no_rule_explains_is_not_called_healthy(tmp_path: Path) -> None:
    answer = why(write_run(tmp_path, serve(Shape(fixed_ms=10, per_token_ms=1, cap=256), stream(300, 100, 200, 20))))
    assert answer["findings"] == []
    assert not answer["healthy"]
    assert "offered load may exceed" in answer["verdict"]


def test_an_empty_recording_is_not_called_healthy(tmp_path: Path) -> None:
    answer = why(tmp_path)
    assert answer["verdict"].startswith("Nothing to judge")
    assert not answer["healthy"]
    assert [b["id"] for b in answer["blind"]] == [r.id for r in all_rules()]
    assert all(b["collect"] for b in answer["blind"])


def test_steps_without_their_columns_are_not_called_healthy(tmp_path: Path) -> None:
    rows = capped()
    for step in rows["steps"]:
        for name in set(step) - {"step", "start_ns", "end_ns"}:
            step[name] = None
    rows["prefix_lookups"] = []
    answer = why(write_run(tmp_path, rows))
    assert answer["verdict"].startswith("Cannot tell")
    assert (answer["healthy"], answer["clear"]) == (False, [])


def facts_blind(folder: Path, rows: dict[str, Any]) -> list[dict[str, str]]:
    """What is blind beside rules whose own rows are not there."""
    rules = {rule.id for rule in all_rules()}
    return [entry for entry in why(write_run(folder, rows))["blind"] if entry["id"] not in rules]


def test_a_blind_fact_is_listed_once_for_all_processes(tmp_path: Path) -> None:
    rows = capped()
    rows["facts"] = [
        {"process": f"worker-{n}", "fact": "device_ns", "state": "blind", "reason": "no device", "collect": "use a GPU"}
        for n in range(2)
    ]
    assert facts_blind(tmp_path, rows) == [{"id": "device_ns", "reason": "no device", "collect": "use a GPU"}]


def test_lost_and_torn_records_are_noted(tmp_path: Path) -> None:
    rows = capped()
    rows["sources"][0] |= {"lost_count": 7, "torn_count": 2}
    notes = why(write_run(tmp_path, rows))["notes"]
    assert [n.split(" of ")[0] for n in notes] == ["7 records", "2 records"]


def test_what_the_probe_could_not_write_is_noted(tmp_path: Path) -> None:
    rows = capped()
    rows["host"] = [{"process": "engine_core-1", "time_ns": n, "probe_errors_count": n, "ring_dropped_count": 4}
                    for n in (1, 3)]  # fmt: skip
    notes = why(write_run(tmp_path, rows))["notes"]
    assert notes == [
        "the probe in engine_core-1 caught 3 errors of its own: steps or requests may be missing. Please report it",
        "4 records of engine_core-1 had no room in its ring and are missing",
    ]


def test_a_damaged_segment_is_noted_and_the_rest_is_judged(tmp_path: Path) -> None:
    folder = write_run(tmp_path, capped())
    (folder / "host-000000.parquet").write_bytes(b"not a segment")
    answer = why(folder)
    assert [f["id"] for f in answer["findings"]] == ["queue.sequence_cap_binding"]
    assert any("host-000000.parquet is damaged" in n for n in answer["notes"])


def test_a_fact_that_was_shed_on_the_way_is_blind(tmp_path: Path) -> None:
    rows = capped() | {"facts": table("""process     fact               state    reason        collect
                                         worker-1    worker.times       visible  -             -
                                         worker-1    request.delivered  blind    late          -
                                         worker-1    worker.times       blind    shed: budget  fewer
                                         frontend-1  host.samples       visible  -             -
                                         worker-1    host.samples       blind    no file       -
                                         worker-1    request.delivered  visible  -             -""")}
    assert facts_blind(tmp_path, rows) == [{"id": "worker.times", "reason": "shed: budget", "collect": "fewer"}]


@pytest.mark.parametrize("column", ["start_ns", "running_count", "prefill_tokens"])
def test_a_page_header_that_does_not_decode_is_noted_even_without_a_checksum(tmp_path: Path, column: str) -> None:
    folder = write_run(tmp_path, capped())
    (folder / "checksums.txt").unlink()
    segment = folder / "steps-000000.parquet"
    group = pq.read_metadata(segment).row_group(0)
    (chunk,) = (c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == column)
    spoilt = bytearray(segment.read_bytes())
    spoilt[chunk.dictionary_page_offset or chunk.data_page_offset] ^= 0x40
    segment.write_bytes(spoilt)
    answer = why(folder)
    assert any("steps-000000.parquet is damaged" in note for note in answer["notes"])
    assert answer["findings"] == [] and answer["blind"]


def test_a_configuration_that_does_not_parse_still_gives_the_flag(tmp_path: Path) -> None:
    rows = capped()
    rows["sources"][0]["config_json"] = "{"
    (move,) = why(write_run(tmp_path, rows))["findings"][0]["moves"]
    assert (move["setting"], move["current"], move["current_text"]) == ("--max-num-seqs 42", None, "not known")


def test_of_expired_steps_the_load_and_the_times_are_still_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path, capped())
    before = why(folder)
    Expiry(folder, Retention(retain_bytes=1)).tick(0)
    after = why(folder)
    assert after["verdict"].startswith("Nothing can be judged any more: the steps have expired. Kept of them by")
    assert (after["findings"], after["clear"], after["healthy"]) == ([], [], False)
    assert {n: after["load"][n] for n in before["load"]} == pytest.approx(before["load"])
    assert after["load"]["execute_ns"] == sum(s["execute_ns"] for s in capped()["steps"])
    (note,) = after["notes"]
    assert f"{before['load']['steps_count']:,} steps in" in note and "have expired" in note
    lacking = [b for b in after["blind"] if "steps." in b["reason"]]
    assert len(lacking) >= 5
    assert all("have expired" in b["reason"] and "PELLUCID_RETAIN_S" in b["collect"] for b in lacking)


def test_what_is_left_of_a_run_is_judged_and_what_has_expired_is_said(tmp_path: Path) -> None:
    rows = capped()
    folder = write_run(tmp_path, {"steps": rows["steps"][:50]})
    Expiry(folder, Retention(retain_bytes=1)).tick(0)
    write_run(tmp_path, {**rows, "steps": rows["steps"][50:]})
    answer = why(folder)
    assert [f["id"] for f in answer["findings"]] == ["queue.sequence_cap_binding"]
    assert answer["load"]["steps_count"] == len(rows["steps"]) - 50
    assert any(note.startswith("50 steps in") for note in answer["notes"])


def test_since_looks_at_the_end_only(tmp_path: Path) -> None:
    rows = serve(Shape(cap=4), stream(150, 250, 60, 60) + stream(30, 2000, 60, 40, start_ms=120_000))
    assert why(write_run(tmp_path, rows), since_ns=30 * 10**9)["findings"] == []
