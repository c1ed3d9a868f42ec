"""A run as a timeline: real recordings and a real trace, literal rows for what they do not have."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.table import rows as table
from pellucid.store.read import open_run
from pellucid.testing.build import build_run
from pellucid.trace.rows.columns import Identity
from pellucid.trace.torch_profiler.read import read
from pellucid.verbs.captures.keep import keep
from pellucid.verbs.export.event import COLOURS
from pellucid.verbs.export.perfetto import perfetto
from pellucid.verbs.export.span import Wish
from pellucid.verbs.export.tracks import Tracks
from tests.conftest import shared_data
from tests.verbs.export.nesting import faults, malformed, ns

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[2] / "golden"
H200 = "h200_vllm024/qwen3-30b-a3b_64x1000in_12out.pt.trace.json.gz"
NOTHING = Wish()
Events = Sequence[dict[str, Any]]


def exported(folder: Path, wish: Wish = NOTHING) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(b"".join(perfetto(folder, wish).pieces))
    return found


@cache
def healthy() -> dict[str, Any]:
    return exported(GOLDEN / "healthy")


def of(events: Events, **wanted: object) -> list[dict[str, Any]]:
    return [e for e in events if all(e.get(name) == value for name, value in wanted.items())]


def loaded(tmp_path: Path, *names: str) -> Path:
    tmp_path.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        keep(shared_data(name), tmp_path, Identity(f"c{number}", f"file {number}"))
    return tmp_path


def test_a_golden_run_has_all_its_steps_and_requests_from_its_beginning_on() -> None:
    events, run = healthy()["traceEvents"], open_run(GOLDEN / "healthy")
    steps = run.one("SELECT count(*) AS n, sum(end_ns - start_ns)::BIGINT AS took_ns FROM steps")
    shown = [e for e in of(events, ph="X", cat="step") if e["name"].startswith("step ")]
    assert (len(shown), sum(ns(e["dur"]) for e in shown)) == (steps["n"], steps["took_ns"])
    requests = [e for e in of(events, ph="X", cat="request") if "prompt_tokens" in e.get("args", {})]
    assert {e["name"] for e in requests} == {r["request_id"] for r in run.rows("SELECT request_id FROM requests")}
    assert min(e["ts"] for e in events if "ts" in e) == 0.0


def test_what_a_request_was_in_adds_up_to_it() -> None:
    events = of(healthy()["traceEvents"], ph="X", cat="request")
    whole = {(e["tid"], e["ts"]): e for e in events if "args" in e}
    assert sum(ns(e["dur"]) for e in whole.values()) == sum(ns(e["dur"]) for e in events if "args" not in e)
    assert Counter(e["name"] for e in events if "args" not in e) == dict.fromkeys(
        ("frontend", "queue", "prefill", "decode", "delivery"), 99)  # fmt: skip


@pytest.mark.parametrize("name", ["healthy", "few-blocks", "clients-leave", "deep-drafts"])
def test_slices_of_golden_runs_nest(name: str) -> None:
    assert faults(exported(GOLDEN / name)["traceEvents"]) == []


@given(st.integers(1, 45_000_000_000))
def test_any_last_part_of_a_run_nests_and_holds_what_ended_in_it(since_ns: int) -> None:
    found = exported(GOLDEN / "few-blocks", Wish(since_ns=since_ns))["traceEvents"]
    assert faults(found) == []
    run = open_run(GOLDEN / "few-blocks")
    last = max(run.one("SELECT (SELECT max(end_ns) FROM steps), max(last_delivered_ns) FROM requests").values())
    steps = run.one("SELECT count(*) AS n FROM steps WHERE end_ns >= $a", {"a": last - since_ns})["n"]
    assert len([e for e in found if e["name"].startswith("step ")]) == steps


@pytest.mark.parametrize("name", ["device/moe-uniform", "device/eager", "few-blocks"])
def test_an_export_is_whole(name: str) -> None:
    """Each step, request, captured step and kernel of the store once, at its time and for as long."""
    run, found = open_run(GOLDEN / name), exported(GOLDEN / name)
    events, origin_ns = found["traceEvents"], found["otherData"]["origin_ns"]
    wanted = Counter[tuple[str, str, int, int]]()
    for category, query in WHOLE.items():
        wanted.update((category, *r.values()) for r in run.rows(query))
    slices = [e for e in events if e["ph"] == "X" and not _part(e)]
    names = [e["name"].split(":")[0] if "step" in e["cat"] else e["name"] for e in slices]
    shown = Counter((KERNEL_KINDS.get(e["cat"], e["cat"]), name, origin_ns + ns(e["ts"]), ns(e["dur"]))
                    for e, name in zip(slices, names, strict=True))  # fmt: skip
    assert shown == wanted and sum(wanted.values()) > 100
    assert malformed(events) == [] and faults(events) == []


WHOLE = {
    "step": "SELECT 'step ' || step, start_ns, end_ns - start_ns FROM steps",
    "request": """
        SELECT request_id, coalesce(arrival_ns, queued_ns, scheduled_ns) AS start_ns,
               greatest(finish_ns, last_delivered_ns, last_token_ns) - start_ns FROM requests""",
    "capture_step": "SELECT 'step ' || step, start_ns, end_ns - start_ns FROM capture_steps",
    "kernel": "SELECT name, start_ns, duration_ns FROM kernels",
}
KERNEL_KINDS = {"gpu_memcpy": "kernel", "gpu_memset": "kernel", "cpu_op": "kernel"}


def _part(event: dict[str, Any]) -> bool:
    """Of a step or a request: they lie in the whole, which alone has facts."""
    return event["cat"] in ("step", "request") and "args" not in event


def test_a_preemption_lies_in_the_part_it_interrupted() -> None:
    events = exported(GOLDEN / "few-blocks")["traceEvents"]
    count = open_run(GOLDEN / "few-blocks").one("SELECT count(*) AS n FROM request_events WHERE event = 'preempted'")
    assert len(of(events, name="preempted")) == count["n"] == 98


def test_an_arrow_leads_from_each_request_to_its_first_step() -> None:
    events = healthy()["traceEvents"]
    begun, ended = (of(events, ph=ph, cat="scheduled") for ph in "sf")
    assert [e["id"] for e in begun] == [e["id"] for e in ended] and len({e["id"] for e in begun}) == 99
    starts = {(e["pid"], e["tid"], e["ts"]) for e in of(events, ph="X", cat="step") if e["name"].startswith("step ")}
    assert {(e["pid"], e["tid"], e["ts"]) for e in ended} <= starts


def test_counters_follow_the_steps() -> None:
    events = healthy()["traceEvents"]
    names = Counter(e["name"] for e in of(events, ph="C"))
    assert names == {"requests": 1260, "KV blocks": 1260, "tokens per step": 1260}
    assert of(events, ph="C", name="requests")[0]["args"] == {"running_count": 1, "waiting_count": 0}


def test_nothing_of_folders_or_of_the_command_is_in_it() -> None:
    found = healthy()
    assert found["otherData"]["model"] == "gemma-3-270m"
    text = json.dumps(found)
    assert [word for word in (".models", ".venv", "/dev/shm", "--port", "traceparent", "/v1/") if word in text] == []
    assert found["baseTimeNanoseconds"] == 1796033954512352158


def test_a_loaded_trace_reads_back_with_the_same_time_for_each_name(tmp_path: Path) -> None:
    folder = loaded(tmp_path / "run", H200)
    out = tmp_path / "out.json"
    out.write_bytes(b"".join(perfetto(folder, NOTHING).pieces))
    before, after = read(shared_data(H200)), read(out)
    assert after.sums_ns() == before.sums_ns()
    assert [after.count(kind) for kind in range(3)] == [before.count(kind) for kind in range(3)]
    assert (after.about.devices, after.about.damage) == (before.about.devices, ())
    assert (before.kernels.start_ns - before.kernels.start_ns[0]).sum() == (
        after.kernels.start_ns - after.kernels.start_ns[0]).sum()  # fmt: skip
    first = before.about.wall_zero_ns or 0
    assert after.kernels.start_ns[0] + (after.about.wall_zero_ns or 0) == before.kernels.start_ns[0] + first


def test_kernels_of_a_loaded_trace_nest_and_say_what_they_are(tmp_path: Path) -> None:
    events = exported(loaded(tmp_path, H200, "torch_traces/mi300_sglang_qwen3-8b_decode.json.gz"))["traceEvents"]
    assert faults(events) == []
    moe = [e for e in of(events, cat="kernel") if e["args"]["class"] == "moe_gemm"]
    assert {e["cname"] for e in moe} == {COLOURS["moe_gemm"]}
    assert {"class", "layer", "step", "phase", "device", "stream", "grid", "block"} <= moe[0]["args"].keys()
    names = {e["args"]["name"] for e in of(events, ph="M", name="process_name")}
    assert names == {       # recorded months apart
        "device 0 of file 0 · NVIDIA H200 (on a clock of its own)", "device 9 of file 1 · AMD Instinct MI300X"}
    steps = of(events, cat="capture_step")
    assert Counter(e["name"].split(": ")[1] for e in steps) == {"prefill": 1, "mixed": 4, "decode": 12}


LIVE = {
    "sources": table("""process        role         engine  start_ns  anchor_mono_ns  anchor_wall_ns
                        engine_core-1  engine_core  x       900       1000            1700000000000001000"""),
    "steps": table("""process        step  start_ns  end_ns  schedule_ns  execute_ns  update_ns
                      engine_core-1  7     1000      2000    100          800         100
                      engine_core-1  8     1900      3000    50           -           100"""),
    "captures": table("""process   capture  device_name  start_ns  end_ns  start_cost_ns
                         worker-2  c1       H200         1100      1900    5"""),
    "capture_steps": table("""process   capture  step  device_index  phase   start_ns  end_ns
                              worker-2  c1       7     0             decode  1200      1800"""),
    "kernels": table("""process   capture  step  device_index  stream  kind    class  name  start_ns  duration_ns  roof_ns  count
                        worker-2  c1       7     0             7       memcpy  copy   m     1150      10           -        1
                        worker-2  c1       7     0             7       kernel  gemm   a     1200      400          100      1
                        worker-2  c1       7     0             7       kernel  gemm   b     1590      210          -        1"""),  # noqa: E501
    "gpu": table("""device   time_ns  power_watts
                    0 H200   1500     412.5"""),
}


def test_an_arrow_leads_from_a_captured_step_to_its_first_kernel(tmp_path: Path) -> None:
    events = exported(build_run(tmp_path, LIVE))["traceEvents"]
    (begun,), (ended,) = of(events, ph="s", cat="runs"), of(events, ph="f", cat="runs")
    (first,) = of(events, name="a")
    assert begun["id"] == ended["id"] and (begun["ts"], ended["ts"]) == (0.1, 0.2)
    assert (ended["pid"], ended["tid"]) == (first["pid"], first["tid"])
    assert first["args"] == {"class": "gemm", "step": 7, "roof_ns": 100, "roof_ratio": 0.25, "stream": 7, "device": 0}
    assert of(events, ph="C", name="power_watts")[0]["args"] == {"power_watts": 412.5}


def test_what_overlaps_on_one_track_gets_another(tmp_path: Path) -> None:
    """Steps that overlap, as of a scheduler that runs ahead, and kernels of one stream that do."""
    events = exported(build_run(tmp_path, LIVE))["traceEvents"]
    assert faults(events) == []
    tracks = [e["args"]["name"] for e in of(events, ph="M", name="thread_name")]
    assert tracks == ["steps", "steps (2)", "steps", "stream 7", "stream 7 (2)"]


def test_parts_of_a_step_that_were_not_seen_are_left_open(tmp_path: Path) -> None:
    events = exported(build_run(tmp_path, LIVE))["traceEvents"]
    parts = [(e["name"], e["ts"], e["dur"]) for e in of(events, cat="step") if e["tid"] == 2]
    assert parts == [("step 8: step", 0.9, 1.1), ("schedule", 0.9, 0.05), ("update", 1.9, 0.1)]


def test_moments_that_were_not_seen_join_the_parts_beside_them(tmp_path: Path) -> None:
    events = exported(build_run(tmp_path, {"steps": LIVE["steps"], "requests": table("""
        process        request  request_id  arrival_ns  queued_ns  scheduled_ns  first_token_ns  last_token_ns  finish_ns
        engine_core-1  1        a           1000        -          1200          1500            2000           1990
        engine_core-1  2        b           1000        1100       -             -               -              -""")}))["traceEvents"]  # noqa: E501
    parts = [(e["name"], e["ts"], e["dur"]) for e in of(events, cat="request") if "args" not in e]
    assert parts == [("frontend + queue", 0.0, 0.2), ("prefill", 0.2, 0.3), ("decode", 0.5, 0.5),
                     ("frontend", 0.0, 0.1), ("queue", 0.1, 1.9)]  # fmt: skip
    assert of(events, name="b")[0]["args"]["unfinished"] is True


@pytest.mark.parametrize(
    ("wall_ns", "at", "own"), [(1_700_000_000_000_001_500, 0.5, False), (1_600_000_000_000_000_000, 0.0, True)]
)
def test_a_loaded_file_lies_at_its_wall_time_if_near(tmp_path: Path, wall_ns: int, at: float, own: bool) -> None:
    file = {"process": "f.json", "capture": "c2", "file": "f.json", "start_ns": 50, "end_ns": 90,
            "wall_start_ns": wall_ns}  # fmt: skip
    kernel = {"process": "f.json", "capture": "c2", "name": "k", "kind": "kernel", "class": "gemm", "device_index": 0,
              "stream": 1, "start_ns": 50, "duration_ns": 9, "count": 1}  # fmt: skip
    tables = LIVE | {"captures": [file], "kernels": [kernel], "capture_steps": []}
    found = perfetto(build_run(tmp_path, tables), NOTHING)
    events = json.loads(b"".join(found.pieces))["traceEvents"]
    assert [e["ts"] for e in of(events, name="k")] == [at]
    assert [n for n in found.notes if "no wall time near" in n] == ([found.notes[0]] if own else [])


def test_a_file_alone_without_a_wall_time_begins_the_timeline(tmp_path: Path) -> None:
    run = {name: LIVE[name] for name in ("captures", "kernels")}
    found = perfetto(build_run(tmp_path, run | {"captures": [{**LIVE["captures"][0], "start_cost_ns": None}]}), NOTHING)
    answer = json.loads(b"".join(found.pieces))
    assert [e["ts"] for e in of(answer["traceEvents"], ph="X")] == [0.05, 0.1, 0.49]
    assert (found.notes, "baseTimeNanoseconds" in answer) == ((), False)


def test_one_capture_comes_with_what_ran_beside_it(tmp_path: Path) -> None:
    later = [{**row, "capture": "c2", "start_ns": 6100, "end_ns": 6900} for row in LIVE["captures"]]
    folder = build_run(tmp_path, LIVE | {"captures": [*LIVE["captures"], *later]})
    events = exported(folder, Wish(capture="c1"))["traceEvents"]
    assert [e["name"] for e in events if e["name"].startswith("step ")] == [
        "step 7: step", "step 8: step", "step 7: decode"]  # fmt: skip
    assert [e for e in exported(folder, Wish(capture="c2"))["traceEvents"] if e.get("cat")] == []
    with pytest.raises(AskedWrongly, match=r"no captures of .* are called 'x'; there are c1, c2"):
        perfetto(folder, Wish(capture="x"))


def test_a_run_without_a_time_cannot_be_shown(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswer, match="there is no timeline to show"):
        perfetto(build_run(tmp_path, {}), NOTHING)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20))))
def test_no_two_slices_of_a_lane_overlap_in_any_order(slices: list[tuple[int, int]]) -> None:
    tracks, lanes = Tracks(), defaultdict[int, list[tuple[int, int]]](list)
    for start, lasted in slices:
        lanes[tracks.lane(1, "x", start, start + lasted)].append((start, start + lasted))
    assert all(a[1] <= b[0] for lane in lanes.values() for a, b in pairwise(lane))
    assert len(tracks.titles) == len(lanes)
