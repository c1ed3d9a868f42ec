"""`pellucid report` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.surface.test_cli import pellucid
from tests.tune.session import World
from tests.verbs.loop.test_sessions import SESSION, A, B, whole_session

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Path:
    whole_session(tmp_path, World((A, B), fidelity="different"))
    return tmp_path


def test_the_newest_session_becomes_a_page_that_is_not_written_over(home: Path) -> None:
    out = home / "loop.html"
    done = pellucid(home, "report", "--out", str(out))
    assert (done.returncode, done.stdout) == (0, "")
    assert "Nothing was shown to beat the present configuration; 2 trials" in done.stderr
    assert out.read_text().startswith("<!doctype html>")
    again = pellucid(home, "report", SESSION[:8], "--out", str(out))
    assert (again.returncode, "is there already. Try: --force" in again.stderr) == (2, True)
    assert pellucid(home, "report", "--out", str(out), "--force").returncode == 0


def test_json_is_the_same_as_data(home: Path) -> None:
    made = json.loads(pellucid(home, "report", "--json").stdout)
    assert made["id"] == SESSION
    assert [t["state"] for t in made["trials"]] == ["rolled back", "rolled back"]


def test_a_page_needs_a_place_and_something_to_tell(home: Path, tmp_path: Path) -> None:
    assert pellucid(home, "report", "--json", "--out", "x.html").returncode == 2
    assert pellucid(home, "report", "--out", str(home)).returncode == 2
    assert pellucid(tmp_path / "empty", "report").returncode == 3
