from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.core.errors import AskedWrongly
from pellucid.verbs.explain import explain_request
from tests.diagnose.engine_model import Ask, Rows, Shape, serve, write_run
from tests.diagnose.test_scenarios import ODD_PROMPTS, SCENES, stream

pytestmark = pytest.mark.slow

BUSY = [s for s in SCENES if s.finds]


def spans(told: dict[str, Any], total: str) -> dict[str, Any]:
    return {s["span"]: s for s in told[total]["spans"]}


@pytest.mark.parametrize("scene", BUSY, ids=lambda s: s.name)
def test_spans_parts_and_gaps_add_up(tmp_path: Path, scene: Any) -> None:
    rows = serve(scene.shape, scene.asks)
    folder = write_run(tmp_path, rows)
    for request in rows["requests"][5::50]:
        told = explain_request(folder, request["request_id"])
        for total in ("ttft", "e2e"):
            known = [s for s in told[total]["spans"] if s["span"] != "network"]
            assert sum(s["duration_ns"] for s in known) == told[total]["total_ns"]
            for span in known:
                assert not span["parts"] or sum(p["duration_ns"] for p in span["parts"]) == span["duration_ns"]
        assert told["gaps"]["total_ns"] == spans(told, "e2e")["decode"]["duration_ns"]
        assert sum(c["total_ns"] for c in told["gaps"]["by_cause"]) == told["gaps"]["total_ns"]


def test_the_answer_is_json(tmp_path: Path) -> None:
    told = explain_request(write_run(tmp_path, serve(Shape(), [Ask(0, 50, 5)])), "r0")
    assert json.loads(json.dumps(told))["request"]["request_id"] == "r0"


@pytest.mark.parametrize(("shape", "part"), [
    (Shape(cap=1), "sequence_cap"), (Shape(budget=64), "token_budget"), (Shape(blocks=30), "kv"),
])  # fmt: skip
def test_the_queue_says_what_it_waited_for(tmp_path: Path, shape: Shape, part: str) -> None:
    told = explain_request(write_run(tmp_path, serve(shape, [Ask(0, 400, 60), Ask(1, 400, 9)])), "r1")
    parts = spans(told, "ttft")["queue"]["parts"]
    assert max(parts, key=lambda p: p["duration_ns"])["name"] == part


def test_a_request_that_met_nobody_waited_for_the_step_in_progress_at_most(tmp_path: Path) -> None:
    told = explain_request(write_run(tmp_path, serve(Shape(), [Ask(0, 50, 5)])), "r0")
    assert {p["name"] for p in spans(told, "ttft")["queue"]["parts"]} <= {"step_in_progress"}


def test_prefill_names_those_whose_prompts_were_in_the_way(tmp_path: Path) -> None:
    told = explain_request(write_run(tmp_path, serve(Shape(), [Ask(0, 1500, 5), Ask(0, 500, 5)])), "r1")
    parts = {p["name"]: p for p in spans(told, "ttft")["prefill"]["parts"]}
    assert list(parts["others_chunks"]["request_ids"]) == ["r0"]
    assert parts["others_chunks"]["duration_ns"] > 2 * parts["own_chunks"]["duration_ns"]


def test_the_worst_gap_names_the_prompt_that_made_it(tmp_path: Path) -> None:
    told = explain_request(write_run(tmp_path, serve(Shape(), [Ask(0, 50, 60), Ask(300, 1500, 5)])), "r0")
    worst = told["gaps"]["worst"][0]
    assert (worst["cause"], list(worst["request_ids"])) == ("other_prefill", ["r1"])
    assert "1500 prompt tokens of r1" in told["verdict"]


def test_a_preemption_is_a_gap_of_its_own(tmp_path: Path) -> None:
    rows = serve(Shape(blocks=60, cap=16), stream(120, 150, 60, 100))
    victim = next(r for r in rows["requests"] if r["preemptions_count"] and r["output_tokens"] > 20)
    told = explain_request(write_run(tmp_path, rows), victim["request_id"])
    assert "preempted" in {c["cause"] for c in told["gaps"]["by_cause"]}


def test_steps_without_it_are_told_apart(tmp_path: Path) -> None:
    rows = serve(Shape(), [Ask(0, 50, 20), Ask(0, 50, 20)])
    rows["step_runs"] = [r for r in rows["step_runs"] if not (r["request"] == 0 and r["first_step"] in (7, 8))]
    told = explain_request(write_run(tmp_path, rows), "r0")
    assert told["gaps"]["worst"][0]["cause"] == "not_scheduled"


def test_host_time_is_told_apart(tmp_path: Path) -> None:
    shape = Shape(fixed_ms=1, per_token_ms=0, schedule_ms=3)
    told = explain_request(write_run(tmp_path, serve(shape, [Ask(0, 50, 20)])), "r0")
    assert [c["cause"] for c in told["gaps"]["by_cause"]] == ["host"]


def test_network_time_is_blind_with_the_way_to_see_it(tmp_path: Path) -> None:
    told = explain_request(write_run(tmp_path, serve(Shape(), [Ask(0, 50, 5)])), "r0")
    network = spans(told, "ttft")["network"]
    assert network["duration_ns"] is None
    assert network["reason"] and network["collect"]


def test_an_aborted_request_says_by_whom_and_after_how_many_tokens(tmp_path: Path) -> None:
    told = explain_request(write_run(tmp_path, serve(Shape(), [Ask(0, 50, 50, abort_ms=400)])), "r0")
    assert told["request"]["state"] == "aborted"
    assert "aborted by the client after" in told["verdict"]


@pytest.mark.parametrize(("cap", "until_ms", "state"), [
    (1, 350, "unfinished: waiting"), (2, 350, "unfinished: in prefill"), (2, 2000, "unfinished: decoding"),
])  # fmt: skip
def test_an_unfinished_request_says_where_it_was(tmp_path: Path, cap: int, until_ms: float, state: str) -> None:
    rows = serve(Shape(budget=512, cap=cap), [Ask(0, 100, 500), Ask(1, 2000, 500)], until_ms)
    told = explain_request(write_run(tmp_path, rows), "r1")
    assert told["request"]["state"] == state
    assert told["e2e"]["total_ns"] is None
    assert spans(told, "e2e")["last_delivery"]["reason"]


def test_a_repeated_id_gives_the_newest_and_lists_the_others(tmp_path: Path) -> None:
    rows: Rows = serve(Shape(), [Ask(0, 50, 5), Ask(500, 50, 5)])
    for request in rows["requests"]:
        request["request_id"] = "same"
    folder = write_run(tmp_path, rows)
    told = explain_request(folder, "same")
    assert told["request"]["internal_id"] == "r1-0"
    assert [d["internal_id"] for d in told["duplicates"]] == ["r0-0"]
    assert explain_request(folder, "r0-0")["duplicates"] == []


def test_an_unknown_id_is_asked_wrongly(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="it has 1 requests, for example r0"):
        explain_request(write_run(tmp_path, serve(Shape(), [Ask(0, 50, 5)])), "nope")


def test_without_steps_the_spans_stay_and_a_note_says_what_is_missing(tmp_path: Path) -> None:
    rows = serve(Shape(), ODD_PROMPTS[:3])
    rows |= {"steps": [], "step_runs": []}
    told = explain_request(write_run(tmp_path, rows), "r0")
    assert told["ttft"]["total_ns"] is not None
    assert told["notes"] == ["no step of it was recorded (raw steps expire first): prefill and gaps cannot be split"]
