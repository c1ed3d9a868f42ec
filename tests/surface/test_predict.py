"""`pellucid predict` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.surface.test_cli import pellucid

pytestmark = pytest.mark.slow
GOLDEN = Path(__file__).parents[1] / "golden"
CAP, HEALTHY = str(GOLDEN / "sequence-cap"), str(GOLDEN / "healthy")


def test_a_what_if_is_one_screen_with_the_recording_beside_it(tmp_path: Path) -> None:
    done = pellucid(tmp_path, "predict", "--run", CAP, "--set", "max_num_seqs=16", "--load", "1.5x")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    (first,) = [line for line in lines if line.startswith("TTFT p50")]
    assert first.split()[2:4] == ["3.3", "s"]
    assert "as it is, 1.5x" in done.stdout and "max_running_requests=16" in done.stdout
    assert len(lines) < 40
    assert done.stdout.count("(") > 20          # no figure without an interval


def test_as_json(tmp_path: Path) -> None:
    done = pellucid(tmp_path, "predict", "--run", CAP, "--set", "max_num_seqs=16", "--json")
    answer = json.loads(done.stdout)
    assert answer.keys() == {"run", "set", "load_ratio", "model", "recorded", "again", "present", "candidate", "notes"}


def test_a_check_tells_each_measure(tmp_path: Path) -> None:
    done = pellucid(tmp_path, "predict", "--run", HEALTHY, "--check", HEALTHY)
    assert done.returncode == 0
    assert "measures lie in their interval" in done.stdout
    assert "learnt from this very run" in " ".join(done.stdout.split())
    rows = json.loads(pellucid(tmp_path, "predict", "--run", HEALTHY, "--check", HEALTHY, "--json").stdout)["rows"]
    assert {row["measure"] for row in rows} >= {"ttft_p95_ns", "output_tokens_per_s"}


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("--run", HEALTHY, "--load", "fast"), 2, "write it as 1.5x"),
        (("--run", HEALTHY, "--load=-1x"), 2, "write it as 1.5x"),
        (("--run", HEALTHY, "--set", "tensor_parallel_size=2"), 3, "Try: pellucid try"),
        (("--run", HEALTHY, "--check", CAP, "--load", "2x"), 2, "--check takes"),
        (("--run", HEALTHY, "--workload", "/nowhere.parquet"), 2, "no such file"),
        (("--run", str(GOLDEN / "kv-fits")), 3, "Try: record for longer"),
        ((), 3, "pellucid run"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(tmp_path: Path, args: tuple[str, ...], code: int, says: str) -> None:
    done = pellucid(tmp_path, "predict", *args)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in " ".join(done.stderr.split())
