"""Which pages that did not come are worth a note."""

from __future__ import annotations

from pathlib import Path

from pellucid.core.table import rows
from pellucid.store.read import open_run
from pellucid.testing.build import build_run
from pellucid.verbs.intake.page_notes import page_notes

HEAD = "process  metric  part  kind  start_ns  end_ns  value\n"


def notes(home: Path, *lines: str) -> list[str]:
    return page_notes(open_run(build_run(home / "r", {"metrics": rows(HEAD + "\n".join(lines))})))


def failed(part: str, end_ns: int) -> str:
    return f"e  scrape_failed_count  {part}  counter  -  {end_ns}  1"


PAGES = ("e  running_count  -  gauge  -  10  1", "e  running_count  -  gauge  -  20  1")


def test_an_engine_that_starts_or_has_ended_refuses_and_that_is_no_note(tmp_path: Path) -> None:
    assert notes(tmp_path, *PAGES, failed("refused", 5), failed("refused", 25)) == []


def test_a_page_missed_between_others_and_any_other_failure_is_told(tmp_path: Path) -> None:
    found = notes(tmp_path, *PAGES, failed("refused", 15), failed("5xx", 25), failed("refused", 25))
    assert found == ["1 metrics pages of e did not come: 5xx", "1 metrics pages of e did not come: refused"]


def test_a_page_without_its_time_is_told_once(tmp_path: Path) -> None:
    (found,) = notes(tmp_path, *PAGES, "f  running_count  -  gauge  -  -  1", "f  waiting_count  -  gauge  -  -  0")
    assert found.startswith("f does not say when its first page was")


def test_where_no_page_came_all_are_told(tmp_path: Path) -> None:
    assert notes(tmp_path, failed("refused", 5)) == ["1 metrics pages of e did not come: refused"]
