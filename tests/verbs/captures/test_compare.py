"""Two captures side by side: literal rows for the arithmetic, real traces for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.table import rows as table
from pellucid.testing.build import build_run
from pellucid.verbs.captures.compare import Comparison, Line, compare
from tests.conftest import shared_data

pytestmark = pytest.mark.slow

H200_MIXED = "h200_vllm024/qwen3-30b-a3b_64x1000in_12out.pt.trace.json.gz"
H200_PREFILL = "h200_vllm024/qwen3-30b-a3b_prefill_4x8000.pt.trace.json.gz"
H100 = "torch_traces/h100_qwen1.5-0.5b-chat_hf.json.gz"
MI300 = "torch_traces/mi300_qwen1.5-0.5b-chat_hf.json.gz"
HTA = "torch_traces/hta"
CAPTURE = "process  capture  format          device_name  model  devices_count\nw        c1       torch_profiler  {}           m      1"  # noqa: E501


def run_of(folder: Path, kernels: str, requests: int = 8, device: str = "H200", graph: str = "full") -> str:
    """Three decode steps of 1,000 ns, and kernels: step  class  name  duration_ns  layer  start_ns  op."""
    steps = "\n".join(f"w  c1  {n}  decode  {graph}  {n}000  {n + 1}000  900  {requests}" for n in range(3))
    head = "process  capture  step  phase  graph  start_ns  end_ns  busy_ns  decode_requests_count\n"
    seen = [{"process": "w", "capture": "c1", "phase": "decode", "kind": "kernel", "count": 1, **row}
            for row in table("step  class  name  duration_ns  layer  start_ns  op\n" + kernels)]  # fmt: skip
    captures = table(CAPTURE.format(device))
    build_run(folder, {"captures": captures, "capture_steps": table(head + steps), "kernels": seen})
    return str(folder)


def of(found: Comparison, part: str, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row[c] for c in columns) for line in found.rows if (row := line.json())["part"] == part]


def real(a: str, b: str, phase: str | None = None) -> Comparison:
    return compare(Path("/nowhere"), str(shared_data(a)), str(shared_data(b)), phase)


BEFORE = """
    0  gemm  old  300  0  10  mm
    1  gemm  old  310  0  10  mm
    2  gemm  old  290  0  10  mm
    0  norm  n    50   0  20  -
    1  norm  n    52   0  20  -
    2  norm  n    48   0  20  -
    0  copy  c    10   -  30  -"""


def test_a_mean_counts_the_steps_without_the_kernel(tmp_path: Path) -> None:
    a, b = run_of(tmp_path / "a", BEFORE), run_of(tmp_path / "b", BEFORE.replace("  10   -", "  40   -"))
    found = compare(tmp_path, a, b, "decode")
    (copy,) = [line for line in found.rows if line.name == "c"]
    assert [copy.a_ns, copy.b_ns, copy.a_kernels_count] == pytest.approx([10 / 3, 40 / 3, 1 / 3])
    # of 10, 0, 0 and 40, 0, 0 the standard errors are 10/3 and 40/3
    assert copy.spread_ns == pytest.approx(2 * ((10 / 3) ** 2 + (40 / 3) ** 2) ** 0.5)
    assert (copy.state, copy.of_ns) == ("within the spread", 1000.0)
    assert copy.difference_ratio == pytest.approx(0.01)


@pytest.mark.parametrize(("by_ns", "state"), [(16, "within the spread"), (17, "changed"), (-17, "changed")])
def test_a_difference_is_one_above_two_standard_errors(tmp_path: Path, by_ns: int, state: str) -> None:
    """Durations of 290, 300 and 310 have a standard error of 10/√3 on both sides: 2·√2·10/√3 = 16.3."""
    after = BEFORE
    for ns in (300, 310, 290):
        after = after.replace(f"old  {ns}", f"old  {ns + by_ns}")
    found = compare(tmp_path, run_of(tmp_path / "a", BEFORE), run_of(tmp_path / "b", after))
    assert ("old", state) in of(found, "kernel", "name", "state")
    assert ("n", "same") in of(found, "kernel", "name", "state")


@pytest.mark.parametrize(
    ("after", "match", "replaced_by"),
    [
        (BEFORE.replace("old", "new"), "place", "new"),
        (BEFORE.replace("gemm  old", "activation  new"), "removed", None),       # of another class
        (BEFORE.replace("old", "new").replace("0  10  mm", "-  10  mm"), "op", "new"),
        (BEFORE.replace("old", "new").replace("0  10  mm", "-  10  bmm"), "removed", None),
    ],
)
def test_a_renamed_kernel_is_known_by_class_and_place_or_operator(
    tmp_path: Path, after: str, match: str, replaced_by: str | None
) -> None:
    found = compare(tmp_path, run_of(tmp_path / "a", BEFORE), run_of(tmp_path / "b", after))
    kernels = of(found, "kernel", "name", "match", "replaced_by")
    assert ("old", match, replaced_by) in kernels
    assert (("new", "added", None) in kernels) == (match == "removed")


def test_an_operator_that_two_kernels_fit_names_none(tmp_path: Path) -> None:
    outside = BEFORE.replace("0  10  mm", "-  10  mm")
    two = outside.replace("old", "new") + "\n    0  gemm  newer  30  -  12  mm"
    one, other = run_of(tmp_path / "a", outside), run_of(tmp_path / "b", two)
    for found in (compare(tmp_path, one, other), compare(tmp_path, other, one)):
        told = {match for name, match in of(found, "kernel", "name", "match") if name in ("old", "new", "newer")}
        assert told == {"removed", "added"}


def test_what_makes_times_incomparable_is_said(tmp_path: Path) -> None:
    a = run_of(tmp_path / "a", BEFORE)
    b = run_of(tmp_path / "b", BEFORE, requests=9, device="H100", graph="none")
    assert compare(tmp_path, a, b).notes[:3] == (
        "not the same device: a has H200, b has H100",
        "decode: 8 requests in a step of a, 9 in one of b: times per step do not compare",
        "decode: device graphs full on a, none on b",
    )
    near = run_of(tmp_path / "c", BEFORE, requests=80)
    also = run_of(tmp_path / "d", BEFORE, requests=88)
    assert [n for n in compare(tmp_path, near, also).notes if "do not compare" in n] == []


def test_the_rows_are_the_step_then_classes_then_kernels_the_largest_first(tmp_path: Path) -> None:
    after = BEFORE.replace("norm  n    5", "norm  n    9")
    found = compare(tmp_path, run_of(tmp_path / "a", BEFORE), run_of(tmp_path / "b", after))
    assert [line.part for line in found.rows] == ["step", "idle", "total", *["class"] * 3, *["kernel"] * 3]
    assert of(found, "class", "class")[0] == ("norm",)
    by_class = compare(tmp_path, str(tmp_path / "a"), str(tmp_path / "b"), by="class")
    assert {line.part for line in by_class.rows} == {"step", "idle", "total", "class"}


def test_json_has_units(tmp_path: Path) -> None:
    answer = compare(tmp_path, run_of(tmp_path / "a", BEFORE), str(tmp_path / "a")).json()
    assert answer["units"] == {
        "a_kernels_count": "count", "b_kernels_count": "count", "a_ns": "ns", "b_ns": "ns", "difference_ns": "ns",
        "of_ns": "ns", "difference_ratio": "ratio", "spread_ns": "ns",
    }  # fmt: skip
    assert answer["head"]["a"]["phases"][0] == {
        "phase": "decode", "steps_count": 3, "prefill_requests_count": None, "prefill_tokens": None,
        "decode_requests_count": 8.0, "graph": "full"}  # fmt: skip


def test_a_run_without_kernels_cannot_answer(tmp_path: Path) -> None:
    build_run(tmp_path / "runs" / "r1", {})
    with pytest.raises(CannotAnswer, match="r1 has no kernels"):
        compare(tmp_path, "r1", "r1")


def test_one_capture_of_a_run_is_named_by_its_id(tmp_path: Path) -> None:
    a = run_of(tmp_path / "runs" / "r1", BEFORE)
    assert {line.state for line in compare(tmp_path, "r1:c1", ":c").rows} == {"same"}
    with pytest.raises(AskedWrongly, match="no captures are called 'c2'; there are c1"):
        compare(tmp_path, a, f"{a}:c2")


@pytest.mark.parametrize("name", [H200_MIXED, H100, f"{HTA}/sampled_rank-0.json.gz"])
def test_a_trace_against_itself_has_no_change_at_all(name: str) -> None:
    found = real(name, name)
    assert {line.state for line in found.rows} == {"same"}
    assert {line.match for line in found.rows if line.part == "kernel"} == {"name"}
    assert {line.difference_ns for line in found.rows} == {0.0}


def test_one_kernel_fewer_is_seen_in_whole_traces() -> None:
    found = real(f"{HTA}/trace_compare_base.json.gz", f"{HTA}/trace_compare_test.json.gz")
    assert found.head["per"] == "trace"
    assert "no phase has steps on both sides" in found.notes[0]
    assert of(found, "total", "a_kernels_count", "b_kernels_count", "a_ns", "b_ns", "state") == [
        (6.0, 5.0, 432000.0, 428000.0, "not judged")]  # fmt: skip
    assert of(found, "class", "class", "difference_ns") == [("elementwise", -4000.0), ("memset", 0.0)]


def test_two_ranks_differ_and_their_classes_add_up() -> None:
    found = real(f"{HTA}/sampled_rank-0.json.gz", f"{HTA}/sampled_rank-1.json.gz")
    assert of(found, "total", "a_kernels_count", "b_kernels_count", "a_ns", "b_ns") == [
        (1154.0, 1104.0, 606519000.0, 651026000.0)]  # fmt: skip
    assert _sum(found, "class") == (606519000.0, 651026000.0)
    assert {"removed", "name"} <= {line.match for line in found.rows}


def test_the_same_workload_on_two_vendors_compares_by_class() -> None:
    found = real(H100, MI300, "prefill")
    assert "not the same device: a has NVIDIA H100 80GB HBM3, b has AMD Instinct MI300X VF" in found.notes
    classes = {row[0]: row[1:] for row in of(found, "class", "class", "a_kernels_count", "b_kernels_count")}
    assert classes["attention"] == (24, 24) and classes["elementwise"] == (515, 515)
    attention = [line for line in found.rows if line.part == "kernel" and line.category == "attention"]
    assert [(line.replaced_by, line.match) for line in attention] == [("attn_fwd", "place")]
    assert _sum(found, "class") == (31760058.0, 29743178.0)


def test_prefills_of_other_sizes_are_compared_and_said_not_to_compare() -> None:
    found = real(H200_MIXED, H200_PREFILL)
    assert {line.phase for line in found.rows} == {"prefill"}
    assert found.notes[0] == (
        "prefill: 8,000 prompt tokens in a step of a, 16,000 in one of b: times per step do not compare")
    assert "a: 11 steps of decode, 4 steps of mixed are not compared" in found.notes
    assert of(found, "total", "a_ns", "b_ns", "state") == [(104464050.0, 278600090.5, "not judged")]
    (renamed,) = [line for line in found.rows if line.match == "place"]
    assert (renamed.a_kernels_count, renamed.b_kernels_count, renamed.category) == (48, 48, "gemm")


def test_a_phase_that_one_side_lacks_cannot_be_compared() -> None:
    with pytest.raises(CannotAnswer, match="has no decode steps: it has prefill"):
        real(H200_MIXED, H200_PREFILL, "decode")


def _sum(found: Comparison, part: str) -> tuple[float, float]:
    lines: list[Line] = [line for line in found.rows if line.part == part]
    return sum(line.a_ns or 0 for line in lines), sum(line.b_ns or 0 for line in lines)
