"""`pellucid compare` and `pellucid export` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import shared_data
from tests.surface.test_cli import pellucid

pytestmark = pytest.mark.slow

BASE, TEST = (f"torch_traces/hta/trace_compare_{name}.json.gz" for name in ("base", "test"))
H200 = "h200_vllm024/qwen3-30b-a3b_64x1000in_12out.pt.trace.json.gz"


def test_compare_prints_a_table_and_says_what_does_not_compare(tmp_path: Path) -> None:
    done = pellucid(tmp_path, "compare", str(shared_data(BASE)), str(shared_data(TEST)), "--limit", "2")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0] == "a  trace_compare_base.json.gz · 6 kernels"
    assert " ".join(lines[3].split()) == "whole traces count a count b a b difference of a's kernels"
    assert " ".join(lines[4].split()) == "kernels, copies not counted 6 5 432 µs 428 µs −4.0 µs −0.9%"
    assert lines[-1] == "  4 more, 0 of them changed; --limit 0 shows all"
    assert "whole traces are compared" in done.stderr


def test_compare_as_json_has_head_rows_units_and_notes(tmp_path: Path) -> None:
    trace = str(shared_data(H200))
    done = pellucid(tmp_path, "compare", trace, trace, "--phase", "decode", "--by", "class", "--json")
    answer = json.loads(done.stdout)
    assert answer.keys() == {"head", "rows", "units", "notes"}
    assert answer["head"]["per"] == "step" and answer["head"]["a"]["device_name"] == "NVIDIA H200"
    assert {row["state"] for row in answer["rows"]} == {"same"}
    assert {row["phase"] for row in answer["rows"]} == {"decode"}


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("compare", "example", "example"), 3, "example has no kernels"),
        (("compare", "nope", "example"), 2, "no run has that id"),
        (("compare", "example:c1", "example"), 2, "no captures are called 'c1'"),
        (("export", "--perfetto", "/nowhere/x.json", "--run", "example"), 2, "there is no folder /nowhere"),
        (("export", "--perfetto", "-", "--run", "example", "--capture", "c"), 2, "there are none"),
        (("export", "--run", "example"), 2, "--perfetto"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(tmp_path: Path, args: tuple[str, ...], code: int, says: str) -> None:
    done = pellucid(tmp_path, *args)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr


def test_export_writes_a_file_once_and_the_same_to_stdout(tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    args = ("export", "--run", "example", "--since", "5s", "--perfetto")
    assert pellucid(tmp_path, *args, str(out)).returncode == 0
    again = pellucid(tmp_path, *args, str(out))
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    assert pellucid(tmp_path, *args, "-").stdout == out.read_text()
    assert len(json.loads(out.read_text())["traceEvents"]) > 100
