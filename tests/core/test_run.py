from __future__ import annotations

import os
from pathlib import Path

import pytest

from pellucid.core.errors import AskedWrongly, CannotAnswer
from pellucid.core.run import EXAMPLES, RunInfo, find_run, new_run_id, read_info, run_folders, write_info


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Three runs; the second was made last."""
    for name, created_ns in (("20260101-a", 1), ("20260102-b", 3), ("20260102-c", 2)):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        write_info(folder, RunInfo(name, created_ns, ["python"], "/dev/shm/x"))
    return tmp_path


def found(home: Path, wanted: str | None) -> str:
    return find_run(home, wanted, Path("packaged")).name


def test_the_newest_is_the_one_made_last_whatever_its_name(home: Path) -> None:
    assert found(home, None) == "20260102-b"
    assert [f.name for f in run_folders(home)] == ["20260102-b", "20260102-c", "20260101-a"]


@pytest.mark.parametrize(("wanted", "name"), [("20260102-c", "20260102-c"), ("20260101", "20260101-a")])
def test_a_run_is_found_by_id_or_unique_start(home: Path, wanted: str, name: str) -> None:
    assert found(home, wanted) == name


def test_an_id_that_starts_another_is_itself(home: Path) -> None:
    (home / "runs" / "20260101").mkdir()
    assert found(home, "20260101") == "20260101"


def test_a_run_is_found_by_path(home: Path) -> None:
    assert find_run(Path("/nowhere"), str(home / "runs" / "20260101-a"), Path("packaged")).name == "20260101-a"


def test_the_example_needs_no_home() -> None:
    for name in EXAMPLES:
        assert found(Path("/nowhere"), name) == name


@pytest.mark.parametrize(("wanted", "says"), [("2026", "3 runs start so"), ("x", "no run has that id"), ("a/b", "no such folder")])  # noqa: E501
def test_a_wrong_name_is_asked_wrongly(home: Path, wanted: str, says: str) -> None:
    with pytest.raises(AskedWrongly, match=says):
        found(home, wanted)


def test_no_recording_cannot_be_answered(tmp_path: Path) -> None:
    with pytest.raises(CannotAnswer, match="no recording in"):
        found(tmp_path, None)


@pytest.mark.parametrize("text", ["", "[]", '{"run_id": "x"}', '{"run_id": 1, "created_ns": "x", "command": 5}'])
def test_a_damaged_description_still_names_the_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    os.utime(tmp_path, ns=(7_000_000_000, 7_000_000_000))
    assert read_info(tmp_path) == RunInfo(tmp_path.name, 7_000_000_000, [], "")


def test_a_description_survives_the_disk(home: Path) -> None:
    assert read_info(home / "runs" / "20260101-a") == RunInfo("20260101-a", 1, ["python"], "/dev/shm/x")


def test_ids_sort_by_time_and_differ() -> None:
    ids = [new_run_id(1_700_000_000_000_000_000 + i * 10**9) for i in range(3)]
    assert ids == sorted(ids)
    assert new_run_id(0) != new_run_id(0)
