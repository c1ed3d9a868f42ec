"""The observation matrix on a page and in `top`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pellucid.catalog.load import observations
from pellucid.core.units import unit_of
from tests.diagnose.engine_model import Ask, Shape, serve, write_run
from tests.diagnose.test_scenarios import stream
from tests.surface.test_cli import Done, pellucid

pytestmark = pytest.mark.slow

ROWS = observations()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes in which nothing is wrong, then a crowd."""
    folder = tmp_path_factory.mktemp("home")
    asks = stream(240, 500, 80, 40) + [Ask(121_000 + n, 60, 60) for n in range(60)]
    write_run(folder / "runs" / "r1", serve(Shape(cap=8), asks))
    return folder


def lines(done: Done) -> dict[str, list[str]]:
    """Rows of the table by metric."""
    split = [line.split() for line in done.stdout.splitlines() if line.startswith("  ")]
    return {words[0]: words[1:] for words in split if words[0] in ROWS}


def test_every_row_is_on_the_page_with_its_value_or_its_reason(home: Path) -> None:
    done = pellucid(home, "why", "--matrix", "--since", "30s")
    assert (done.returncode, done.stderr) == (0, "")
    assert [name for name in ROWS if name not in done.stdout] == []
    assert max(map(len, done.stdout.splitlines())) <= 100
    cap = lines(done)["waiting_sequence_cap_mean_count"]
    assert (cap[1:4], cap[4]) == (["0", "own", "past"], "bad")
    said = " ".join(done.stdout.split())
    assert "device_xid_count: no row of gpu was recorded → record on the host of the devices" in said


def test_json_is_rows_and_units(home: Path) -> None:
    answer = json.loads(pellucid(home, "why", "--matrix", "--since", "30s", "--json").stdout)
    assert {"rows", "units"} <= set(answer)
    assert [row["metric"] for row in answer["rows"]] == list(ROWS)
    assert answer["units"] == {name: unit_of(name) for name in ROWS}
    rows = {row["metric"]: row for row in answer["rows"]}
    ttft = rows["ttft_p95_ns"]
    assert (ttft["state"], ttft["baseline_from"]) == ("bad", "own_past")
    assert ttft["times_worse"] == pytest.approx(ttft["value"] / ttft["baseline"])
    rate = rows["output_tokens_per_s"]
    assert rate["value"] == pytest.approx(rate["numerator"] * 1e9 / rate["denominator"])
    assert (rate["numerator_name"], rate["denominator_name"]) == ("output_tokens", "output_seen_ns")
    power = rows["device_power_watts"]
    assert (power["state"], power["value"], power["baseline"]) == ("blind", None, None)
    assert answer["window"]["healthy_windows_count"] >= 3


def test_the_matrix_and_a_request_are_two_questions(home: Path) -> None:
    done = pellucid(home, "why", "--matrix", "--request", "r1")
    assert (done.returncode, done.stdout) == (2, "") and "not allowed with" in done.stderr


def test_an_empty_run_has_a_matrix_of_reasons(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "r1", {})
    done = pellucid(tmp_path, "why", "--matrix")
    assert done.returncode == 0 and lines(done) == {}
    assert "no step and no metrics page was recorded" in done.stdout and [n for n in ROWS if n not in done.stdout] == []


def test_top_has_a_short_form_that_fits_a_small_terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.surface.cli.render.page.WIDTH", 80)
    done = pellucid(home, "top", "--once", "--matrix")
    text = done.stdout.splitlines()
    assert len(text) <= 24 and max(map(len, text)) <= 80
    assert "ttft_p95" in done.stdout and " bad " in done.stdout and "9 blind" in done.stdout
    assert "r1-" not in done.stdout, "the last requests make room"


def test_top_without_it_asks_for_no_matrix(home: Path) -> None:
    assert json.loads(pellucid(home, "top", "--json").stdout)["matrix"] is None
    assert json.loads(pellucid(home, "top", "--json", "--matrix").stdout)["matrix"]["rows"]
